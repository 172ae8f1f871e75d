package up

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Without a configuration file to read again, a terminal that goes away ends all.
func TestHangup(t *testing.T) {
	m := &machine{}
	err := m.hangup(t.Context(), func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "the terminal is gone") {
		t.Errorf("error %v", err)
	}
	m.cfg.ConfigFile = "epp.yaml" // the routers read it
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.hangup(ctx, cancel); err != nil {
		t.Error(err)
	}
}
