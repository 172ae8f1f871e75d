package feed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

func newLender(t *testing.T) *lender {
	t.Helper()
	x, err := index.New(index.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	x.SetEndpoints(ids)
	for i := range uint64(50) {
		if _, err := x.Place(key, "a", chain(i, 5, 30)); err != nil {
			t.Fatal(err)
		}
	}
	return &lender{index: x, order: &recency.Order{}, id: "lender", pageBytes: leastPage, loans: make(map[string]*loan)}
}

func ask(l *lender, asker string, page uint32) *statev1.GetPrefixesResponse {
	return l.answer(&statev1.GetPrefixesRequest{AskerId: asker, IndexerId: "lender", Page: page})
}

func TestWhoIsAnswered(t *testing.T) {
	l := newLender(t)
	greeting := &statev1.GetPrefixesRequest{AskerId: "asker"}
	if l.answer(greeting) != nil {
		t.Error("answered before it was open")
	}
	l.open()
	for _, c := range []struct {
		name string
		q    *statev1.GetPrefixesRequest
		want bool
	}{
		{"a greeting", greeting, true},
		{"its own greeting", &statev1.GetPrefixesRequest{AskerId: "lender"}, false},
		{"nobody's greeting", &statev1.GetPrefixesRequest{}, false},
		{"a page of somebody else", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "other", Page: 1}, false},
		{"a later page before the first", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "lender", Page: 2}, false},
		{"the first page", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "lender", Page: 1}, true},
		{"the first page again", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "lender", Page: 1}, true},
		{"a page that is too far", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "lender", Page: 3}, false},
		{"the next page", &statev1.GetPrefixesRequest{AskerId: "asker", IndexerId: "lender", Page: 2}, true},
		{"the next page, for another", &statev1.GetPrefixesRequest{AskerId: "asker-2", IndexerId: "lender", Page: 2}, false},
	} {
		if got := l.answer(c.q) != nil; got != c.want {
			t.Errorf("%s: answered %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPagesAreRepeatableAndEnd(t *testing.T) {
	l := newLender(t)
	l.open()
	blocks, page := 0, uint32(1)
	for more := true; more; page++ {
		a := ask(l, "asker", page)
		if a == nil || page > 100 {
			t.Fatalf("page %d: %v", page, a)
		}
		if again := ask(l, "asker", page); again != a {
			t.Errorf("page %d is another when asked for again", page)
		}
		for _, p := range a.GetPlacements() {
			blocks += len(p.GetHashes()) - 1
		}
		more = a.GetMore()
	}
	if want := l.index.Stats().Entries; int64(blocks) != want {
		t.Errorf("%d blocks in all pages, want %d", blocks, want)
	}
	if page < 5 {
		t.Errorf("only %d pages, so nothing was tested", page-1)
	}
	if ask(l, "asker", page) != nil {
		t.Error("a page after the last")
	}
	if a := ask(l, "asker", 1); a == nil || len(a.GetPlacements()) == 0 {
		t.Error("no second copy for the same asker")
	}
}

// The order is cut into pages like the index, and comes before it.
func TestTheOrderOfColdPromptsIsHandedOutFirst(t *testing.T) {
	l := newLender(t)
	l.open()
	var want []string
	for i := range 300 {
		id := fmt.Sprint("endpoint-", i)
		l.order.Touch(id)
		want = append(want, id)
	}
	slices.Reverse(want)
	var got []string
	page := uint32(1)
	for more := true; more; page++ {
		a := ask(l, "asker", page)
		if a == nil || page > 100 {
			t.Fatalf("page %d: %v", page, a)
		}
		if len(a.GetPlacements()) > 0 && len(got)+len(a.GetColdEndpointIds()) < len(want) {
			t.Errorf("page %d has placements before the order is complete", page)
		}
		if n := proto.Size(a); n > 2*leastPage {
			t.Errorf("page %d has %d bytes, want about %d", page, n, leastPage)
		}
		got = append(got, a.GetColdEndpointIds()...)
		more = a.GetMore()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// An order without an index is handed out too.
	l.index.SetEndpoints(nil)
	if a := ask(l, "other", 1); len(a.GetColdEndpointIds()) == 0 || !a.GetMore() {
		t.Errorf("first page %v", a)
	}
}

func TestLoansAreBoundedAndEnd(t *testing.T) {
	l := newLender(t)
	l.open()
	for i := range mostLoans {
		if ask(l, fmt.Sprint("asker-", i), 1) == nil {
			t.Fatalf("loan %d refused", i)
		}
	}
	if ask(l, "one-too-many", 1) != nil {
		t.Error("more loans than there may be")
	}
	l.sweep(time.Now().Add(loanLife / 2))
	if ask(l, "asker-0", 2) == nil {
		t.Error("a loan in use was swept")
	}
	l.sweep(time.Now().Add(2 * loanLife))
	if ask(l, "one-too-many", 1) == nil {
		t.Error("no loan after the others were given up")
	}
}
