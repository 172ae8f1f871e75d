package up

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// hangup ends everything when the terminal goes away. Routers catch SIGHUP, to read
// their configuration again; where there is no file to read, it shall mean what it
// means to any other command.
func (m *machine) hangup(ctx context.Context, ready func()) error {
	hangups := make(chan os.Signal, 1)
	if m.cfg.ConfigFile == "" {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	ready()
	select {
	case <-ctx.Done():
		return nil
	case <-hangups:
		return errors.New("the terminal is gone (SIGHUP)")
	}
}
