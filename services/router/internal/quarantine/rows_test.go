package quarantine

import (
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// B154: endpoints leave and come back while requests on them end well or badly. Nobody
// writes into what was swept away, and who has left leaves nothing behind.
func TestB154EndpointsLeaveWhileRequestsEnd(t *testing.T) {
	q, err := New(Config{First: time.Nanosecond, Longest: time.Millisecond}, func() int64 { return time.Now().UnixNano() })
	if err != nil {
		t.Fatal(err)
	}
	ids := []roster.ID{"a", "b", "c", "d"}
	var tables []*roster.Table
	for _, n := range []int{1, len(ids)} {
		var endpoints []roster.Endpoint
		for _, id := range ids[:n] {
			endpoints = append(endpoints, roster.Endpoint{ID: id, Host: string(id), Port: 1})
		}
		table, err := roster.NewTable(endpoints)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	var ending sync.WaitGroup
	for _, id := range ids {
		ending.Go(func() {
			for range 1000 {
				q.Failed(id, "x")
				q.Reason(id, time.Now().UnixNano())
				q.Succeeded(id)
				q.Out()
			}
			q.Failed(id, "x")
		})
	}
	for i := range 1000 {
		q.Retain(nil, tables[i%2])
	}
	ending.Wait()
	q.Retain(nil, tables[0])
	if s := q.Suspects(); len(s) != 1 || s[0] != "a" {
		t.Errorf("suspects %v, want only the one that has stayed", s)
	}
}
