package discover

import (
	"context"
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/watch"
)

const maxFile = 16 << 20

var errEmpty = errors.New("holds neither endpoints nor dns; for no endpoints write \"endpoints: []\"")

// readFile reads the endpoints file at the start, when there is no older list to keep.
// The watched file tells what is there later.
func (d *Discoverer) readFile() (*List, *watch.File, error) {
	cfg := watch.DefaultConfig(d.cfg.EndpointsFile)
	cfg.Poll, cfg.MaxBytes = d.cfg.Discovery.FileInterval.D(), maxFile
	text, err := cfg.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("endpointsFile: %w", err)
	}
	list, err := parse(cfg.Path, text)
	if err != nil {
		return nil, nil, err
	}
	file, err := watch.New(cfg, text)
	return list, file, err
}

// followFile calls changed with each new list, until ctx ends.
func (d *Discoverer) followFile(ctx context.Context, file *watch.File, changed func(*List)) {
	file.Run(ctx, func(text []byte, err error) {
		if err != nil {
			d.fileFailed(fmt.Errorf("endpointsFile: %w", err))
			return
		}
		list, err := parse(d.cfg.EndpointsFile, text)
		if err != nil {
			d.fileFailed(err)
			return
		}
		changed(list)
	}, func(err error) {
		d.log.Warn("changes of the endpoints file are not notified, it is polled", "file", d.cfg.EndpointsFile, "interval", d.cfg.Discovery.FileInterval.D(), "error", err)
	})
}

func parse(path string, text []byte) (*List, error) {
	list := &List{}
	if err := conf.Parse(path, text, list); err != nil {
		return nil, err
	}
	if list.Endpoints == nil && list.DNS == nil {
		return nil, fmt.Errorf("%s: %w", path, errEmpty)
	}
	return list, nil
}
