package kubernetes

import (
	"os"
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	apiserver.Stop()
	cluster.Clean()
	os.Exit(code)
}
