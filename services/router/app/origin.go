package app

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/pointsman/pointsman/internal/kit/watch"
)

// origin is where the EndpointPickerConfig comes from.
type origin struct {
	source string // what messages call it
	text   []byte // as it was at the start
	file   string // empty: it is no file, and stays as it is
	reload bool   // the file is followed
}

// words says when the configuration is read again.
func (o origin) words() string {
	switch {
	case o.file == "":
		return "never: it is not a file"
	case !o.reload:
		return "never: --configReload=false"
	}
	return "when the file changes, and on SIGHUP"
}

// catchHangups catches SIGHUP, which would end the process otherwise.
func catchHangups() (<-chan os.Signal, func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups, func() { signal.Stop(hangups) }
}

// follow replaces the configuration when its file changes and on SIGHUP, until ctx
// ends. The one that is in use is left to those who decide by it.
func (c *configuration) follow(ctx context.Context, hangups <-chan os.Signal) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	file := watch.DefaultConfig(c.origin.file)
	followed := c.origin.file != "" && c.origin.reload
	if followed {
		w, err := watch.New(file, c.origin.text)
		if err != nil {
			return err
		}
		watching.Go(func() {
			w.Run(ctx, func(text []byte, err error) { c.replace(text, err, false) }, func(err error) {
				c.log.Warn("changes of the configuration file are not notified, it is polled", "file", file.Path, "interval", file.Poll, "error", err)
			})
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
		}
		if !followed {
			c.log.Warn("SIGHUP: the configuration is not read again", "source", c.origin.source, "reload", c.origin.words())
			continue
		}
		text, err := file.Read()
		c.replace(text, err, true)
	}
}
