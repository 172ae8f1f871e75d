package cluster

import (
	"os"
	"testing"

	"github.com/pointsman/pointsman/sim/modelserver"
)

// Announce replaces the endpoints file by one with these servers and this policy, as an
// operator would while everything runs. The cluster must have been started with a policy.
func (c *Cluster) Announce(t testing.TB, policy string, servers ...*modelserver.Server) {
	t.Helper()
	if c.file == "" {
		t.Fatal("the cluster has no endpoints file: start it with Options.Policy")
	}
	next := c.file + ".next"
	if err := os.WriteFile(next, []byte("endpoints: "+c.listed(servers)+"\n"+policy), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		t.Fatal(err)
	}
}
