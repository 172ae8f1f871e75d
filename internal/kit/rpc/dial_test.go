package rpc_test

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// A gRPC server without settings of its own closes a connection after the third ping that comes less than 5 minutes
// after the one before, unless it sends something in between; an idle stream of score calls sends nothing all night.
func TestPingsStayBelowWhatServersEnforce(t *testing.T) {
	const stock = 5 * time.Minute
	if rpc.PingEvery <= stock {
		t.Errorf("pings every %s, want more than %s", rpc.PingEvery, stock)
	}
}

func TestDialConnectsLazilyAndAgain(t *testing.T) {
	first := start(t, plain(), telemetry.Discard(), &echo{})
	cfg := rpc.DefaultServerConfig(first.addr)
	first.stop()
	conn := dial(t, cfg.Address, rpc.DefaultClientConfig()) // nobody is there, and that is no error
	if err := call(t, conn); err == nil {
		t.Fatal("a call was answered by nobody")
	}
	start(t, cfg, telemetry.Discard(), &echo{})
	kittest.Eventually(t, "the connection finds the server", func() bool { return call(t, conn) == nil })
}
