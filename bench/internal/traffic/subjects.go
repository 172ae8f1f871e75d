package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Flow is how much passes on one subject.
type Flow struct {
	// Messages and Bytes are per second.
	Messages float64 `json:"messages_per_second"`
	Bytes    float64 `json:"bytes_per_second"`
}

// broadcasts is the subjects of all pools, "pointsman.v1.<pool>.<noun>".
const broadcasts = "pointsman.v1.*.*"

// BySubject subscribes to the broadcasts of the server at "host:port", counts for so
// long, and returns what passed by the last word of the subject: table, load, outcome, …
// The subscriber is one receiver more, so keep it out of windows that are measured.
func BySubject(ctx context.Context, server string, window time.Duration) (flows map[string]Flow, err error) {
	nc, err := nats.Connect("nats://"+server, nats.Name("bench"), nats.Timeout(patience))
	if err != nil {
		return nil, fmt.Errorf("count by subject at %s: %w", server, err)
	}
	defer nc.Close()
	var mu sync.Mutex
	flows = make(map[string]Flow)
	sub, err := nc.Subscribe(broadcasts, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		noun := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		f := flows[noun]
		flows[noun] = Flow{f.Messages + 1, f.Bytes + float64(len(m.Data))}
	})
	if err != nil {
		return nil, fmt.Errorf("count by subject at %s: %w", server, err)
	}
	if err := nc.FlushTimeout(patience); err != nil {
		return nil, fmt.Errorf("count by subject at %s: %w", server, err)
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(window):
	}
	took := time.Since(began).Seconds()
	lost, err := sub.Dropped()
	if err := errors.Join(err, sub.Unsubscribe()); err != nil {
		return nil, fmt.Errorf("count by subject at %s: %w", server, err)
	}
	if lost > 0 {
		return nil, fmt.Errorf("count by subject at %s: %d messages came faster than they could be counted", server, lost)
	}
	mu.Lock()
	defer mu.Unlock()
	rates := make(map[string]Flow, len(flows)) // a last message may still come
	for noun, f := range flows {
		rates[noun] = Flow{f.Messages / took, f.Bytes / took}
	}
	return rates, nil
}
