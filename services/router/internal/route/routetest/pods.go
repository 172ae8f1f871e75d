package routetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Pod is an endpoint and what it last said of itself.
type Pod struct {
	// Waiting, Running and KV are the scraped figures; negative for unknown.
	Waiting, Running int32
	KV               float32
	// Active and Queued are its adapters, and Max how many fit. Max 0: no figures.
	Active, Queued []string
	Max            uint32
	// Age is how old the figures are.
	Age time.Duration
	// Unscraped is true if it was never read.
	Unscraped bool
	// InFlight is how many picks it has that its figures do not show.
	InFlight int
	// InFlightTokens is how many uncached prompt tokens each of them has.
	InFlightTokens uint32
	// Models, Labels, Host and Cache are the endpoint's. Host "" becomes
	// 192.168.1.(i+1), Port 0 becomes 8000.
	Models []string
	Labels []roster.Label
	Host   string
	Port   uint16
	// Engine is what it runs; "" is not known.
	Engine string
	// CacheTokens is the size of its KV cache in tokens, in blocks of 1.
	CacheTokens uint32
}

// Roster returns a roster of the pods, in their order: pod i has position i, id
// "pod-%04d".
func Roster(t testing.TB, pods ...Pod) *roster.Roster {
	t.Helper()
	now := int64(time.Hour)
	r := roster.New(roster.Config{Clock: func() int64 { return now }})
	endpoints := make([]roster.Endpoint, len(pods))
	for i, p := range pods {
		host := p.Host
		if host == "" {
			host = fmt.Sprintf("192.168.%d.%d", 1+i/250, i%250+1)
		}
		port := p.Port
		if port == 0 {
			port = 8000
		}
		endpoints[i] = roster.Endpoint{
			ID: roster.ID(fmt.Sprintf("pod-%04d", i)), Host: host, Port: port, Models: p.Models, Labels: p.Labels, Engine: p.Engine,
			CacheBlockSize: min(p.CacheTokens, 1), CacheBlockCount: p.CacheTokens,
		}
	}
	table, err := roster.NewTable(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(table)
	l := roster.Loads{TableDigest: table.Digest, Adapters: map[uint32]*roster.Adapters{}}
	for i, p := range pods {
		age := int32(p.Age / time.Millisecond) //nolint:gosec // a test's
		if p.Unscraped {
			age = -1
		}
		l.AgeMS = append(l.AgeMS, age)
		l.Waiting, l.Running, l.KV = append(l.Waiting, p.Waiting), append(l.Running, p.Running), append(l.KV, p.KV)
		if p.Max > 0 || p.Active != nil || p.Queued != nil {
			a := &roster.Adapters{Running: slices.Sorted(slices.Values(p.Active)), Waiting: slices.Sorted(slices.Values(p.Queued)), Max: p.Max}
			l.Adapters[uint32(i)] = a //nolint:gosec // a test's
		}
	}
	if len(pods) > 0 {
		if err := r.ApplyLoads(l, now); err != nil {
			t.Fatal(err)
		}
	}
	var id uint64
	for i, p := range pods {
		for range p.InFlight {
			id++
			r.Pick("routetest", id, endpoints[i].ID, p.InFlightTokens, now)
		}
	}
	return r
}

// Cycle returns a cycle for the request over the pods.
func Cycle(t testing.TB, req *route.Request, pods ...Pod) *route.Cycle {
	t.Helper()
	r := Roster(t, pods...)
	return &route.Cycle{Request: req, Snapshot: r.Snapshot(), Now: r.Now(), Rand: rand.IntN}
}

// Positions returns 0..n-1.
func Positions(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i) //nolint:gosec // a test's
	}
	return all
}
