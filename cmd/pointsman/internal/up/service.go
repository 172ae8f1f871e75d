package up

import (
	"context"
	"io"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// book holds the addresses that services have announced, by "service/listener".
type book struct {
	mu    sync.Mutex
	addrs map[string]string
}

func newBook() *book { return &book{addrs: make(map[string]string)} }

func (b *book) get(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addrs[key]
}

func (b *book) set(key, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs[key] = addr
}

// app is a service's entry point.
type app func(ctx context.Context, args []string, stdout io.Writer) error

// service runs a service as a part that is ready once it has announced the
// listeners. args is called when it starts, when the parts before it are known.
// instance distinguishes several of one service.
func (b *book) service(instance string, entry app, args func() []string, listeners ...string) run.Part {
	return func(ctx context.Context, ready func()) error {
		wanted := make(map[string]bool, len(listeners))
		for _, l := range listeners {
			wanted[l] = true
		}
		var mu sync.Mutex
		ctx = run.WithAnnounce(ctx, func(_, listener, addr string) {
			b.set(instance+"/"+listener, addr)
			mu.Lock()
			defer mu.Unlock()
			if wanted[listener] {
				delete(wanted, listener)
				if len(wanted) == 0 {
					ready()
				}
			}
		})
		return entry(ctx, args(), io.Discard)
	}
}
