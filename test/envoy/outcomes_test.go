package envoy

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// outcome is what the routers tell each other of one pick.
type outcome struct {
	endpoint   string
	firstToken bool
	finished   *statev1.Finished
}

// outcomes follows the routers' outcomes on the bus.
type outcomes struct {
	mu    sync.Mutex
	picks []*outcome
	open  map[string]map[uint64]*outcome // by router and pick
}

func follow(t testing.TB, url string) *outcomes {
	t.Helper()
	o := &outcomes{open: make(map[string]map[uint64]*outcome)}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("pointsman.v1.*.outcome", func(m *nats.Msg) {
		var b statev1.OutcomeBatch
		if err := proto.Unmarshal(m.Data, &b); err != nil {
			t.Errorf("outcomes: %v", err)
			return
		}
		o.take(&b)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *outcomes) take(b *statev1.OutcomeBatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	router := b.GetStamp().GetPublisherId()
	for _, e := range b.GetEvents() {
		if p := e.GetPicked(); p != nil {
			n := &outcome{endpoint: p.GetEndpointId()}
			o.picks = append(o.picks, n)
			if o.open[router] == nil {
				o.open[router] = make(map[uint64]*outcome)
			}
			o.open[router][e.GetPickId()] = n
			continue
		}
		n := o.open[router][e.GetPickId()]
		if n == nil {
			continue // picked before we listened
		}
		if e.GetFirstToken() != nil {
			n.firstToken = true
		}
		if f := e.GetFinished(); f != nil {
			n.finished = f
			delete(o.open[router], e.GetPickId())
		}
	}
}

// mark returns where the outcomes are now; see since. It waits for those of the picks
// that were made, which come some milliseconds after them.
func (r *rig) mark(t testing.TB) int {
	t.Helper()
	heard := 0
	kittest.Eventually(t, "all picks to be heard of", func() bool {
		made := 0.0
		for i := range r.Routers {
			made += r.Metric(t, i, "pointsman_router_decisions_total", `outcome="picked"`)
		}
		r.outcomes.mu.Lock()
		defer r.outcomes.mu.Unlock()
		heard = len(r.outcomes.picks)
		return heard >= int(made)
	})
	return heard
}

// since waits until there are n more picks than at the mark and all of them have
// ended, asserts that there are no more, and returns them.
func (o *outcomes) since(t testing.TB, mark, n int) []outcome {
	t.Helper()
	got := o.least(t, mark, n)
	if len(got) != n {
		t.Fatalf("%d picks, want %d", len(got), n)
	}
	return got
}

// least is since where there may be more.
func (o *outcomes) least(t testing.TB, mark, n int) []outcome {
	t.Helper()
	var got []outcome
	kittest.Eventually(t, "the outcomes of the picks", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		got = got[:0]
		for _, p := range o.picks[mark:] {
			if p.finished == nil {
				return false
			}
			got = append(got, *p)
		}
		return len(got) >= n
	})
	return got
}
