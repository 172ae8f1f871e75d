package disagg

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxDirectory is of how many bootstrap servers the engines are remembered.
	maxDirectory = 1024
	// maxEngineAge is for how long. An engine that was restarted has another id, and not
	// every decode engine tells that it found none: it may compute the prompt by itself.
	maxEngineAge = time.Minute
	// queryTimeout is how long a bootstrap server may take to answer.
	queryTimeout = 5 * time.Second
	// maxQueryBytes limits its answer.
	maxQueryBytes = 1 << 20
)

// rankedEngine is an engine of one data-parallel rank.
type rankedEngine struct{ rank, id string }

// directory knows the engines behind Mooncake's bootstrap servers. Whoever needs the same
// at once asks once. Safe for concurrent use.
type directory struct {
	transport http.RoundTripper

	mu    sync.Mutex
	known map[string]*list.Element // by address; *listing
	order list.List                // the one that was used last first
}

// listing is what one server has said, or will say.
type listing struct {
	address string
	waiting int // who wait for it
	cancel  context.CancelFunc
	done    chan struct{}
	// After done:
	engines []rankedEngine
	err     error
	at      time.Time
}

func newDirectory(t http.RoundTripper) *directory {
	return &directory{transport: t, known: make(map[string]*list.Element)}
}

// behind returns the engines behind the server at the address, at least one.
func (d *directory) behind(ctx context.Context, address string) ([]rankedEngine, error) {
	l := d.join(address)
	defer d.leave(l)
	select {
	case <-l.done:
		return l.engines, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the listing of the server, which is asked if it has to be.
func (d *directory) join(address string) *listing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.known[address]; e != nil {
		l, _ := e.Value.(*listing)
		if !l.over() || l.err == nil && time.Since(l.at) < maxEngineAge {
			d.order.MoveToFront(e)
			l.waiting++
			return l
		}
		d.drop(l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	l := &listing{address: address, waiting: 1, cancel: cancel, done: make(chan struct{})}
	d.known[address] = d.order.PushFront(l)
	for len(d.known) > maxDirectory {
		if last, ok := d.order.Back().Value.(*listing); ok {
			d.drop(last)
		}
	}
	go func() {
		defer cancel()
		l.engines, l.err = d.query(ctx, address)
		l.at = time.Now()
		close(l.done)
	}()
	return l
}

// leave gives up a query that nobody waits for any more, and an answer that was none.
func (d *directory) leave(l *listing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.waiting--
	switch over := l.over(); {
	case !over && l.waiting == 0:
		l.cancel()
		d.drop(l)
	case over && l.err != nil:
		d.drop(l)
	}
}

func (l *listing) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// drop forgets a listing. d.mu is held.
func (d *directory) drop(l *listing) {
	if e := d.known[l.address]; e != nil && e.Value == l {
		d.order.Remove(e)
		delete(d.known, l.address)
	}
}

// forget has the server be asked again.
func (d *directory) forget(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.known[address]; e != nil {
		if l, _ := e.Value.(*listing); l.over() {
			d.drop(l)
		}
	}
}

// query asks a server. Its answer has an object for each data-parallel rank, by number.
func (d *directory) query(ctx context.Context, address string) ([]rankedEngine, error) {
	u := &url.URL{Scheme: "http", Host: address, Path: "/query"}
	q := &http.Request{Method: http.MethodGet, URL: u, Host: address, Header: http.Header{"Accept": {"application/json"}, "User-Agent": nil}}
	resp, err := d.transport.RoundTrip(q.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("ask the bootstrap server %s: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxQueryBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the bootstrap server %s: %w", address, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("the bootstrap server %s answered %d", address, resp.StatusCode)
	case len(raw) > maxQueryBytes:
		return nil, fmt.Errorf("the bootstrap server %s answered more than %d bytes", address, maxQueryBytes)
	}
	var said map[string]struct {
		ID string `json:"engine_id"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, fmt.Errorf("read what the bootstrap server %s answered: %w", address, err)
	}
	var out []rankedEngine
	for rank, e := range said {
		if _, err := strconv.ParseUint(rank, 10, 16); err == nil && e.ID != "" {
			out = append(out, rankedEngine{rank, e.ID})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the bootstrap server %s: %w", address, errNoEngines)
	}
	slices.SortFunc(out, func(a, b rankedEngine) int { return strings.Compare(a.rank, b.rank) })
	return out, nil
}

var errNoEngines = errors.New("it names no engine")
