package envoy

import (
	"os"
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
)

func TestMain(m *testing.M) {
	code := m.Run()
	cluster.Clean()
	os.Exit(code)
}
