package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script answers requests to one place of the API, one after the other; the last answer
// is repeated.
type script struct {
	mu      sync.Mutex
	lists   []string // bodies, or "STATUS code message"
	watches []string
	queries []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.queries = append(s.queries, r.URL.RawQuery)
	from, watch := &s.lists, r.URL.Query().Get("watch") != ""
	if watch {
		from = &s.watches
	}
	body := (*from)[0]
	if len(*from) > 1 {
		*from = (*from)[1:]
	}
	s.mu.Unlock()
	if text, ok := strings.CutPrefix(body, "STATUS "); ok {
		code, message, _ := strings.Cut(text, " ")
		n := 0
		_, _ = fmt.Sscan(code, &n)
		w.WriteHeader(n)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","message":%q}`, message)
		return
	}
	_, _ = w.Write([]byte(body))
	if watch && strings.HasSuffix(body, "\n") { // it stays open
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func (s *script) seen(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.queries {
		if strings.Contains(q, part) {
			n++
		}
	}
	return n
}

// named is an object of which only the name counts.
func named(raw json.RawMessage) (string, error) {
	var id identity
	if err := json.Unmarshal(raw, &id); err != nil || id.Metadata.Name == "bad" || strings.Contains(string(raw), "spoilt") {
		return "", fmt.Errorf("no good: %w", err)
	}
	return id.Metadata.Name, nil
}

func object(name string) string { return `{"metadata":{"namespace":"n","name":"` + name + `"}}` }

func spoilt(name string) string { return `{"spoilt":true,` + object(name)[1:] }

func list(version string, names ...string) string {
	var items []string
	for _, n := range names {
		items = append(items, object(n))
	}
	return `{"metadata":{"resourceVersion":"` + version + `"},"items":[` + strings.Join(items, ",") + `]}`
}

// follow runs a source against a script.
func follow(t *testing.T, s *script, optional bool) (*source[string], *telemetry.Telemetry) {
	t.Helper()
	server := httptest.NewServer(s)
	tel := telemetry.Discard()
	tel.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	m, err := newMeters(tel.Meter)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{http: server.Client(), base: server.URL}
	src := &source[string]{resource: "things", path: "/apis/things", optional: optional, decode: named, notify: func() {}, client: c, log: tel.Log, meters: m}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		src.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		c.close()
		server.Close()
	})
	return src, tel
}

func holds(t *testing.T, s *source[string], names ...string) {
	t.Helper()
	var got []string
	kittest.Eventually(t, fmt.Sprintf("the source holds %v", names), func() bool {
		got = got[:0]
		s.each(func(n string) { got = append(got, n) })
		slices.Sort(got)
		synced, _ := s.state()
		return synced && slices.Equal(got, names)
	})
}

const open = `{"type":"BOOKMARK","object":{}}` + "\n"

func TestSource(t *testing.T) {
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object + `}` }
	for name, c := range map[string]struct {
		lists, watches []string
		want           []string
		reason         string // counted
		query          string // asked for
	}{
		"events are applied": {
			[]string{list("1", "a", "b")},
			[]string{event("DELETED", object("a")) + event("ADDED", object("c")) + event("MODIFIED", object("b")) + event("NEW-KIND", `{}`) + "\n"},
			[]string{"b", "c"}, "", "resourceVersion=1",
		},
		"B086 read anew when a watch has ended": {
			[]string{list("1", "a", "b"), list("2", "b")}, []string{event("ADDED", object("c")), open}, []string{"b"}, "", "resourceVersion=2",
		},
		"pages": {
			[]string{`{"metadata":{"resourceVersion":"1","continue":"next"},"items":[` + object("a") + `]}`, list("1", "b")}, []string{open}, []string{"a", "b"}, "", "continue=next",
		},
		"a list that takes too long is asked for at once": {
			[]string{`{"metadata":{"resourceVersion":"1","continue":"next"},"items":[` + object("a") + `]}`, "STATUS 410 too old", list("2", "b")}, []string{open}, []string{"b"}, "", "resourceVersion=2",
		},
		"an expired watch": {
			[]string{list("1", "a"), list("2", "b")}, []string{event("ERROR", `{"code":410,"message":"too old"}`), open}, []string{"b"}, "", "resourceVersion=2",
		},
		"forbidden, then granted": {
			[]string{"STATUS 403 no", "STATUS 403 no", list("1", "a")}, []string{open}, []string{"a"}, "forbidden", "",
		},
		"overloaded": {[]string{"STATUS 429 later", list("1", "a")}, []string{open}, []string{"a"}, "overloaded", ""},
		"no list":    {[]string{"<html>", list("1", "a")}, []string{open}, []string{"a"}, "garbled", ""},
		"no watch":   {[]string{list("1", "a"), list("2", "b")}, []string{"<html>", open}, []string{"b"}, "garbled", ""},
		"an object that is not understood": {
			[]string{list("1", "a", "bad")}, []string{open}, []string{"a"}, "garbled", "",
		},
		"one that comes and is not understood": {
			[]string{list("1", "a")}, []string{event("ADDED", object("bad")) + "\n"}, []string{"a"}, "garbled", "",
		},
		// It once stayed as it had been, for ever.
		"an object that becomes not understood": {
			[]string{list("1", "a", "b")}, []string{event("MODIFIED", spoilt("b")) + "\n"}, []string{"a"}, "garbled", "",
		},
		"and again understood": {
			[]string{list("1", "a", "b")}, []string{event("MODIFIED", spoilt("b")) + event("MODIFIED", object("b")) + "\n"}, []string{"a", "b"}, "garbled", "",
		},
		"bookmarks, and events without an object": {
			[]string{list("1", "a")}, []string{event("BOOKMARK", `{"metadata":{"resourceVersion":"9"}}`) + event("DELETED", `{}`) + event("ADDED", object("b")) + "\n"}, []string{"a", "b"}, "", "allowWatchBookmarks=true",
		},
		"an event that is none": {
			[]string{list("1", "a"), list("2", "b")}, []string{`[5]`, open}, []string{"b"}, "", "resourceVersion=2",
		},
		"a watch that is refused as too old": {
			[]string{list("1", "a"), list("2", "b")}, []string{"STATUS 410 too old", open}, []string{"b"}, "", "resourceVersion=2",
		},
		"an error without reason": {
			[]string{list("1", "a"), list("2", "b")}, []string{event("ERROR", `{}`), open}, []string{"b"}, "refused", "",
		},
		"an answer cut in half": {[]string{list("1", "a")[:30], list("1", "a")}, []string{open}, []string{"a"}, "garbled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{lists: c.lists, watches: c.watches}
			src, tel := follow(t, s, false)
			holds(t, src, c.want...)
			if c.reason != "" {
				kittest.Eventually(t, "the fault is counted", func() bool {
					return tel.Value("pointsman_metrics_collector_kubernetes_errors_total", "resource", "things", "reason", c.reason) > 0
				})
			}
			kittest.Eventually(t, "it was asked "+c.query, func() bool { return s.seen(c.query) > 0 })
			kittest.Eventually(t, "it is followed", func() bool {
				return tel.Value("pointsman_metrics_collector_kubernetes_following", "resource", "things") == 1
			})
		})
	}
}

// Objects that are not to be followed any more, as those of a pool that is deleted, are
// nobody's trouble: the gauge does not stay at 0. Others of the resource still may be.
func TestEndedSourcesAreNoTrouble(t *testing.T) {
	server := httptest.NewServer(&script{lists: []string{"STATUS 403 no"}, watches: []string{open}})
	defer server.Close()
	tel := telemetry.Discard()
	m, err := newMeters(tel.Meter)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{http: server.Client(), base: server.URL}
	defer c.close()
	begin := func() (stop func()) {
		src := &source[string]{resource: "things", path: "/apis/things", decode: named, notify: func() {}, client: c, log: tel.Log, meters: m}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			src.run(ctx)
		}()
		kittest.Eventually(t, "it cannot be followed", func() bool { _, err := src.state(); return err != nil })
		return func() { cancel(); <-done }
	}
	following := func() float64 {
		return tel.Value("pointsman_metrics_collector_kubernetes_following", "resource", "things")
	}
	first, second := begin(), begin()
	first()
	if n := following(); n != 0 {
		t.Errorf("%v although one is left that cannot be followed", n)
	}
	second()
	if n := following(); n != 1 {
		t.Errorf("%v although nothing is to be followed", n)
	}
}

// A pool whose pods are said to speak what they are not spoken to with is told of, when
// that begins.
func TestProtocolOfAPool(t *testing.T) {
	var log strings.Builder
	p := &Pool{key: Key{"n", "m"}, log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		spec, word string
		lines      int // so far
	}{
		{`{}`, "", 0},
		{`{"appProtocol":"http"}`, "", 0},
		{`{"appProtocol":"kubernetes.io/h2c"}`, "pool=n/m appProtocol=kubernetes.io/h2c", 1},
		{`{"appProtocol":"kubernetes.io/h2c"}`, "speak HTTP/1.1 to its pods", 1},
		{`{"appProtocol":"gopher"}`, "is not known here", 2},
		{`{"appProtocol":"http"}`, "", 2},
	} {
		found := parsePool(t, c.spec)
		p.aboutProtocol(found.protocol)
		if n := strings.Count(log.String(), "level=WARN"); n != c.lines || !strings.Contains(log.String(), c.word) {
			t.Errorf("%s: %d lines, want %d:\n%s", c.spec, n, c.lines, log.String())
		}
	}
}

// Whoever ends every watch at once, or calls every one too old, is not asked to list
// everything without a pause.
func TestWatchesThatEndAtOnce(t *testing.T) {
	for name, watch := range map[string]string{"ended": `{"type":"BOOKMARK","object":{}}`, "too old": `{"type":"ERROR","object":{"code":410}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{lists: []string{list("1", "a")}, watches: []string{watch}}
			src, _ := follow(t, s, false)
			holds(t, src, "a")
			began := time.Now()
			kittest.Eventually(t, "it is asked again", func() bool { return s.seen("watch=true") >= 3 })
			time.Sleep(time.Until(began.Add(2 * time.Second)))
			if n, took := s.seen("watch=true"), time.Since(began).Seconds(); float64(n) > 10*took {
				t.Errorf("asked %d times in %.1f s", n, took)
			}
		})
	}
}

// What is wrong with an object is told once, not with every event and every list.
func TestBadObjectsAreToldOnce(t *testing.T) {
	var log strings.Builder
	m, err := newMeters(telemetry.Discard().Meter)
	if err != nil {
		t.Fatal(err)
	}
	src := &source[string]{resource: "things", decode: named, log: slog.New(slog.NewTextHandler(&log, nil)), meters: m, refused: make(map[string]string)}
	items := make(map[string]string)
	for range 3 {
		src.put(items, src.refused, json.RawMessage(spoilt("a")))
	}
	src.put(items, src.refused, json.RawMessage(object("a")))
	src.put(items, src.refused, json.RawMessage(spoilt("a")))
	if n := strings.Count(log.String(), "object=n/a"); n != 2 || len(items) != 0 {
		t.Errorf("told %d times, want once each time that it begins; left are %v:\n%s", n, items, log.String())
	}
}

func TestTypesThatAreNotInstalled(t *testing.T) {
	src, tel := follow(t, &script{lists: []string{"STATUS 404 page not found"}, watches: []string{open}}, true)
	holds(t, src)
	if n := tel.Value("pointsman_metrics_collector_kubernetes_errors_total"); n != 0 {
		t.Errorf("%v errors: nobody has to install it", n)
	}
	// One that must be there is a fault.
	must, tel := follow(t, &script{lists: []string{"STATUS 404 page not found"}, watches: []string{open}}, false)
	kittest.Eventually(t, "it is counted", func() bool {
		return tel.Value("pointsman_metrics_collector_kubernetes_errors_total", "reason", "absent") > 0
	})
	if synced, err := must.state(); synced || err == nil {
		t.Errorf("synced %v, %v", synced, err)
	}
}

// A type that was there is not taken for gone because the API server says so once, as it
// may while it starts.
func TestTypeThatSeemsGone(t *testing.T) {
	s := &script{lists: []string{list("1", "a"), "STATUS 404 page not found", list("2", "a", "b")}, watches: []string{`{"type":"BOOKMARK","object":{}}`, open}}
	src, tel := follow(t, s, true)
	holds(t, src, "a", "b")
	if n := tel.Value("pointsman_metrics_collector_kubernetes_errors_total", "reason", "absent"); n != 1 {
		t.Errorf("%v faults, want one", n)
	}
}

func TestConfigFaults(t *testing.T) {
	for text, c := range map[string]Config{
		"watchAllPools: cannot be combined": {WatchAllPools: true, PoolName: "a"},
		"poolName: missing":                 {PoolNamespace: "a"},
		`poolName: "../x" is no name`:       {PoolName: "../x"},
		"addressFamily: must be ipv4":       {PoolName: "a", AddressFamily: "v6"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", c, err, text)
		}
	}
	if err := (Config{PoolName: "a", PoolNamespace: "b", AddressFamily: ipv6}).Validate(); err != nil {
		t.Error(err)
	}
}
