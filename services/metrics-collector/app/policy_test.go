package app

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// policyHolder keeps the priorities of the policies that are followed.
type policyHolder struct {
	mu   sync.Mutex
	last map[string]int32
}

func (h *policyHolder) use(m *statev1.PoolPolicy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = make(map[string]int32)
	for _, o := range m.GetObjectives() {
		h.last[o.GetName()] = o.GetPriority()
	}
}

func (h *policyHolder) wait(t *testing.T, want map[string]int32) {
	t.Helper()
	kittest.Eventually(t, "the policy arrives", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return cmp.Equal(h.last, want)
	})
}

// What the endpoints file says of requests reaches who listens, early or late, also
// when it changes, and when there is nothing any more.
func TestPoliciesArrive(t *testing.T) {
	nats := kittest.NATS(t)
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("endpoints: []\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("objectives: [{name: batch, priority: -5}]\n")
	cfg := testConfig(nats, "")
	cfg.Discover.EndpointsFile = file
	var early, late policyHolder
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(early.use) })
	startCollector(t, cfg)
	early.wait(t, map[string]int32{"batch": -5})
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(late.use) })
	late.wait(t, map[string]int32{"batch": -5})
	write("objectives: [{name: batch, priority: -6}, {name: chat, priority: 9}]\n")
	early.wait(t, map[string]int32{"batch": -6, "chat": 9})
	late.wait(t, map[string]int32{"batch": -6, "chat": 9})
	write("")
	early.wait(t, map[string]int32{})
}
