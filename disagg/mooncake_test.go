package disagg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newBootstrap is the bootstrap server of a prefill engine, at the port of the rig's plan.
func newBootstrap(t *testing.T, r *rig, _ *engine, play http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(play)
	t.Cleanup(s.Close)
	_, text, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	r.plan.BootstrapPort = uint16(n)
	return s
}

// engineIs tells one engine, of rank 0.
func engineIs(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/query" || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"0":{"engine_id":%q,"worker_addr":{"0":{"0":"tcp://127.0.0.1:5000"}}}}`, id)
	}
}

func TestMooncake(t *testing.T) {
	p, d := newEngine(t, "p", answers(200, "application/json", `{"choices":[]}`)), newEngine(t, "d", decodes())
	r := newRig(t, Mooncake, p)
	var asked atomic.Int32
	boot := newBootstrap(t, r, p, func(w http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		engineIs("e-1")(w, q)
	})
	a := r.do(d)
	if a.err != nil || a.status != 200 || a.report.Served != ByDecode {
		t.Fatalf("%+v", a)
	}
	dec := d.requests()[0]
	id := kvOf(t, dec).Transfer
	want := `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993,"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":"xfer-U","remote_bootstrap_addr":"` + boot.URL + `","remote_engine_id":"e-1"}}`
	if got := anonymous(dec.body, strings.TrimPrefix(id, "xfer-")); got != want {
		t.Errorf("decode %s", cmp.Diff(want, got))
	}
	if h := dec.header.Get(headerRank); h != "" || dec.ids != 1 || dec.id != "client-1" || dec.host != d.Address {
		t.Errorf("decode rank %q, id %q, host %s", h, dec.id, dec.host)
	}
	eventually(t, "the prefill leg was sent", func() bool { return len(p.requests()) == 1 || a.report.Attempts[0].Reason == Abandoned })
	if len(p.requests()) == 1 {
		g := p.requests()[0]
		want = `{"model":"m","messages":[],"max_tokens":1,"seed":9007199254740993,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_prefill":false,"do_remote_decode":true,"transfer_id":"` + id + `"}}`
		if g.body != want || g.header.Get(headerRank) != "0" || g.id != "client-1" || g.ids != 1 || g.host != p.Address {
			t.Errorf("prefill, rank %q: %s", g.header.Get(headerRank), cmp.Diff(want, g.body))
		}
	}
	for range 5 {
		r.do(d)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the bootstrap server was asked %d times", n)
	}
	if again := kvOf(t, d.requests()[5]).Transfer; again == id {
		t.Error("the id is used twice")
	}
	r.watch.told(t)
}

// Each rank has an engine of its own: the one that prefills is the one that is fetched from.
func TestMooncakeRanks(t *testing.T) {
	p := newEngine(t, "p", answers(200, "application/json", `{"choices":[]}`))
	d := newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
		eventually(t, "the prefill leg is there", func() bool { return len(p.requests()) > 0 })
		decodes()(w, r)
	})
	r := newRig(t, Mooncake, p)
	newBootstrap(t, r, p, answers(200, "application/json", `{"0":{"engine_id":"e0"},"1":{"engine_id":"e1"},"x":{"engine_id":"ex"},"2":{"engine_id":""},"3":{}}`))
	ranks := make(map[string]string) // by transfer
	seen := make(map[string]bool)
	eventually(t, "both ranks have prefilled", func() bool {
		r.do(d)
		for _, g := range p.requests() {
			ranks[kvOf(t, g).Transfer] = g.header.Get(headerRank)
		}
		for _, g := range d.requests() {
			if k := kvOf(t, g); ranks[k.Transfer] != "" {
				seen[ranks[k.Transfer]+k.Engine] = true
			}
		}
		return seen["0e0"] && seen["1e1"]
	})
	if len(seen) != 2 {
		t.Errorf("pairs of rank and engine: %v", seen)
	}
	r.watch.told(t)
}

// A bootstrap server that does not tell is as a prefill leg that fails, and is asked again.
func TestMooncakeBootstrapFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		play http.HandlerFunc
		text string
	}{
		{"500", answers(500, "text/plain", "no"), "answered 500"},
		{"no JSON", answers(200, "text/plain", "<html>"), "read what"},
		{"no engine", answers(200, "application/json", `{"0":{}}`), "names no engine"},
		{"too much", answers(200, "application/json", `{"x":"`+strings.Repeat("y", maxQueryBytes)+`"}`), "more than"},
		{"reset", breaks, "ask the bootstrap server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newEngine(t, "p", answers(200, "application/json", `{"choices":[]}`)), newEngine(t, "d", decodes())
			r := newRig(t, Mooncake, p)
			var well atomic.Bool
			newBootstrap(t, r, p, func(w http.ResponseWriter, q *http.Request) {
				if well.Load() {
					engineIs("e")(w, q)
					return
				}
				tt.play(w, q)
			})
			r.plan.Policy.OnFailure = []Action{Fail}
			a := r.do(d)
			if !isPrefillError(a.err, NoBootstrap) || !strings.Contains(a.err.Error(), tt.text) || len(p.requests())+len(d.requests()) != 0 {
				t.Errorf("Fail: %+v", a)
			}
			if diff := cmp.Diff([]string{"begin p", "end p bootstrap-failed"}, r.watch.told(t)); diff != "" {
				t.Error(diff)
			}
			r.plan.Policy.OnFailure = []Action{LocalPrefill}
			if a = r.do(d); a.status != 200 || a.report.Served != ByDecodeAlone || a.report.Reason != NoBootstrap || d.requests()[0].body != r.body {
				t.Errorf("LocalPrefill: %+v", a)
			}
			r.plan.Policy.OnFailure = []Action{RetryOther, Fail}
			r.plan.Prefill = append(r.plan.Prefill, r.plan.Prefill[0]) // the same one again
			if a = r.do(d); !isPrefillError(a.err, NoBootstrap) || len(a.report.Attempts) != 2 {
				t.Errorf("RetryOther: %+v", a)
			}
			well.Store(true)
			if a = r.do(d); a.status != 200 || a.report.Served != ByDecode {
				t.Errorf("well again: %+v", a)
			}
			r.watch.told(t)
		})
	}
}

// A leg that fails has the bootstrap server asked again: an engine that was restarted has
// another id.
func TestMooncakeForgets(t *testing.T) {
	for name, tt := range map[string]struct{ prefill, decode http.HandlerFunc }{
		"the prefill leg": {answers(500, "text/plain", "no"), nil},
		"the decode leg":  {answers(200, "application/json", `{}`), answers(500, "text/plain", "no")},
		"the decode leg breaks in the middle": {answers(200, "application/json", `{}`), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var bad atomic.Bool
			bad.Store(true)
			well := answers(200, "application/json", `{}`)
			p := newEngine(t, "p", func(w http.ResponseWriter, r *http.Request) {
				if bad.Load() {
					tt.prefill(w, r)
					return
				}
				well(w, r)
			})
			d := newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
				if bad.Load() && tt.decode != nil {
					tt.decode(w, r)
					return
				}
				eventually(t, "the prefill leg is there", func() bool { return len(p.requests()) > 0 })
				if bad.Load() { // it waits for what does not come
					<-r.Context().Done()
					return
				}
				well(w, r)
			})
			r := newRig(t, Mooncake, p)
			var asked atomic.Int32
			newBootstrap(t, r, p, func(w http.ResponseWriter, q *http.Request) {
				engineIs(fmt.Sprint("e", asked.Add(1)))(w, q)
			})
			r.plan.Policy.OnFailure = []Action{Fail}
			r.do(d)
			bad.Store(false)
			n := len(d.requests())
			if a := r.do(d); a.status != 200 {
				t.Fatalf("%+v", a)
			}
			if e := kvOf(t, d.requests()[n]).Engine; e != "e2" {
				t.Errorf("engine %s after a failure", e)
			}
			r.watch.told(t)
		})
	}
}

// Mooncake's legs belong together as SGLang's do: a prefill leg that fails ends the decode
// leg, which would wait for what does not come.
func TestMooncakePrefillFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		play   http.HandlerFunc
		want   Reason
		status int
	}{
		{"422", answers(422, "text/plain", "no"), Refused, 422},
		{"500", answers(500, "text/plain", "no"), BadStatus, 500},
		{"refused", nil, ConnectFailed, 0},
		{"reset", breaks, Reset, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			p, d := newEngine(t, "p", tt.play), newEngine(t, "d", hangs(left))
			r := newRig(t, Mooncake, p)
			newBootstrap(t, r, p, engineIs("e"))
			r.plan.Policy.OnFailure = []Action{Fail}
			a := r.do(d)
			if tt.status == 0 && !isPrefillError(a.err, tt.want) || a.status != tt.status {
				t.Errorf("%+v", a)
			}
			for range d.requests() {
				<-left
			}
			r.watch.told(t)
		})
	}
	t.Run("it hangs", func(t *testing.T) {
		left := make(chan struct{}, 2)
		p, d := newEngine(t, "p", hangs(left)), newEngine(t, "d", hangs(left))
		r := newRig(t, Mooncake, p)
		newBootstrap(t, r, p, engineIs("e"))
		r.plan.Policy = Policy{OnFailure: []Action{Fail}, Timeout: 50 * time.Millisecond}
		if a := r.do(d); !isPrefillError(a.err, Timeout) {
			t.Errorf("%+v", a)
		}
		r.watch.told(t)
		eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
	})
}

// Whoever needs the same engines at once asks once, and nobody is asked for who has left.
func TestDirectory(t *testing.T) {
	var asked, gone atomic.Int32
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-release:
			engineIs("e")(w, r)
		case <-r.Context().Done():
			gone.Add(1)
		}
	}))
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	d := newDirectory(tr)
	address := s.Listener.Addr().String()

	ctx, cancel := context.WithCancelCause(t.Context())
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if _, err := d.behind(ctx, address); !errors.Is(err, errDecodeOver) {
				t.Errorf("%v", err)
			}
		})
	}
	eventually(t, "it is asked", func() bool { return asked.Load() == 1 })
	cancel(errDecodeOver)
	wait.Wait()
	eventually(t, "the query has ended", func() bool { return gone.Load() == 1 })
	if len(d.known) != 0 || d.order.Len() != 0 {
		t.Errorf("%d listings are left", len(d.known))
	}

	for range 5 {
		wait.Go(func() {
			if got, err := d.behind(t.Context(), address); err != nil || len(got) != 1 || got[0] != (rankedEngine{"0", "e"}) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	eventually(t, "it is asked again", func() bool { return asked.Load() == 2 })
	close(release)
	wait.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}

	t.Run("an old answer", func(t *testing.T) {
		l, ok := d.known[address].Value.(*listing)
		if !ok {
			t.Fatal("no listing")
		}
		l.at = time.Now().Add(-2 * maxEngineAge)
		if _, err := d.behind(t.Context(), address); err != nil || asked.Load() != 3 {
			t.Errorf("%v, asked %d times", err, asked.Load())
		}
	})
	t.Run("no more than so many", func(t *testing.T) {
		for i := range maxDirectory + 10 {
			d.known[fmt.Sprint(i)] = d.order.PushFront(&listing{address: fmt.Sprint(i), done: closed(), at: time.Now()})
		}
		if _, err := d.behind(t.Context(), "127.0.0.1:1"); err == nil {
			t.Error("nobody listens there")
		}
		if len(d.known) > maxDirectory || len(d.known) != d.order.Len() {
			t.Errorf("%d listings, %d in order", len(d.known), d.order.Len())
		}
		if d.known["0"] != nil || d.known[fmt.Sprint(maxDirectory)] == nil {
			t.Error("not the oldest were dropped")
		}
	})
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
