package feed

import (
	"sync"
	"time"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

const (
	// mostLoans bounds the memory of exports. Who comes when there are so many is not
	// answered, and asks again.
	mostLoans = 4
	// loanLife is how long an export is kept for somebody who does not go on.
	loanLife = time.Minute
	// idBytes is what an endpoint's id takes on the wire beside its letters.
	idBytes = 3
)

// lender hands out the order of cold prompts and the index, page by page, to indexers that start. It is silent
// until it is opened: an index that is still being copied must not be taken for all
// there is.
type lender struct {
	index     *index.Index
	order     *recency.Order
	id        string
	pageBytes int

	mu     sync.Mutex
	opened bool
	loans  map[string]*loan // by asker
}

// loan is one asker's export.
type loan struct {
	cold   []string                     // endpoints that are still to be handed out
	export *index.Export                // nil: all is handed out
	last   *statev1.GetPrefixesResponse // answered to page
	page   uint32
	used   time.Time
}

func (l *lender) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = true
}

// answer answers one question, or returns nil: it is for somebody else. Page 0 is the
// greeting and holds nothing, so that whoever is asked can answer it at once.
func (l *lender) answer(q *statev1.GetPrefixesRequest) *statev1.GetPrefixesResponse {
	l.mu.Lock()
	defer l.mu.Unlock()
	asker := q.GetAskerId()
	switch {
	case !l.opened || asker == "" || asker == l.id:
		return nil
	case q.GetPage() == 0:
		return &statev1.GetPrefixesResponse{IndexerId: l.id, More: true}
	case q.GetIndexerId() != l.id:
		return nil
	}
	o := l.loans[asker]
	if q.GetPage() == 1 && (o == nil || o.page != 1) {
		if o = l.lend(asker); o == nil {
			return nil
		}
	}
	return o.answer(l.id, q.GetPage(), l.pageBytes)
}

// lend begins an export, unless there are too many.
func (l *lender) lend(asker string) *loan {
	delete(l.loans, asker)
	open := 0
	for _, o := range l.loans {
		if o.export != nil {
			open++
		}
	}
	if open >= mostLoans {
		return nil
	}
	o := &loan{cold: l.order.Recent(), export: l.index.Export()}
	l.loans[asker] = o
	return o
}

// answer returns the next page, or the last one again, since its answer may have been
// lost. Nil: the page is out of turn.
func (o *loan) answer(id string, page uint32, bytes int) *statev1.GetPrefixesResponse {
	switch {
	case o == nil:
		return nil
	case page == o.page:
		return o.last
	case page != o.page+1 || o.export == nil:
		return nil
	}
	o.page, o.used = page, time.Now()
	o.last = &statev1.GetPrefixesResponse{IndexerId: id}
	for len(o.cold) > 0 && bytes > 0 {
		o.last.ColdEndpointIds = append(o.last.ColdEndpointIds, o.cold[0])
		bytes -= len(o.cold[0]) + idBytes
		o.cold = o.cold[1:]
	}
	o.last.Placements = toWire(o.export.Next(bytes))
	o.last.More = o.export.Left() > 0 || len(o.cold) > 0
	if !o.last.GetMore() {
		o.export = nil
	}
	return o.last
}

// sweep forgets exports that nobody has gone on with.
func (l *lender) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for asker, o := range l.loans {
		if now.Sub(o.used) > loanLife {
			delete(l.loans, asker)
		}
	}
}
