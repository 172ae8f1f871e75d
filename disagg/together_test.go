package disagg

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// meets are the fields by which two legs meet.
type meets struct {
	Host string `json:"bootstrap_host"`
	Port int    `json:"bootstrap_port"`
	Room int64  `json:"bootstrap_room"`
	Max  *int   `json:"max_tokens"`
}

func meeting(t *testing.T, body string) (m meets) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestF1SGLang(t *testing.T) {
	p, d := newEngine(t, "p", answers(200, "application/json", `{"choices":[]}`)), newEngine(t, "d", decodes())
	r := newRig(t, SGLang, p)
	rooms := make(map[int64]bool)
	abandoned := 0
	for range 20 {
		a := r.do(d)
		if a.err != nil || a.status != 200 || a.report.Served != ByDecode || !strings.Contains(a.body, `"cached_tokens":49`) {
			t.Fatalf("%+v", a)
		}
		if a.report.Attempts[0].Reason == Abandoned { // it may not have been seen
			abandoned++
		}
	}
	if n := len(p.requests()); n < 20-abandoned || len(d.requests()) != 20 {
		t.Errorf("%d prefill legs, of which %d were abandoned; %d decode legs", n, abandoned, len(d.requests()))
	}
	for _, g := range d.requests() {
		m := meeting(t, g.body)
		if m.Host != "127.0.0.1" || m.Port != 8998 || m.Room <= 0 || rooms[m.Room] || *m.Max != 50 {
			t.Errorf("%+v", m)
		}
		rooms[m.Room] = true
	}
	for _, g := range p.requests() {
		if m := meeting(t, g.body); !rooms[m.Room] || *m.Max != 1 || m.Host != "127.0.0.1" {
			t.Errorf("prefill %+v", m)
		}
	}
	r.watch.told(t)
	r.plan.BootstrapPort = 9000
	r.do(d)
	if m := meeting(t, d.requests()[20].body); m.Port != 9000 {
		t.Errorf("port %d", m.Port)
	}
}

// F2: the client has its answer while the prefill leg goes on, which then ends with it.
func TestF2PrefillSlowerThanDecode(t *testing.T) {
	left := make(chan struct{}, 1)
	p, d := newEngine(t, "p", hangs(left)), newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
		decodes()(w, r)
	})
	r := newRig(t, SGLang, p)
	resp, run, err := r.runner.Do(t.Context(), &r.plan, r.request(), d.Endpoint, r.watch)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), "hello") {
		t.Errorf("%q, %v", raw, err)
	}
	eventually(t, "the prefill leg is under way", func() bool { return len(p.requests()) == 1 })
	_ = resp.Body.Close()
	<-left
	if diff := cmp.Diff([]string{"begin p", "end p abandoned"}, r.watch.told(t)); diff != "" {
		t.Error(diff)
	}
	if rep := run.Report(); rep.Served != ByDecode || rep.Reason != OK {
		t.Errorf("%+v", rep)
	}
}

// B169, E32, llm-d#2433: a prefill leg that fails ends the decode leg, which would wait
// for ten minutes, and the client hears of it, or has an answer from others.
func TestB169PrefillFailsFirst(t *testing.T) {
	for _, tt := range []struct {
		name string
		play http.HandlerFunc
		want Reason
	}{
		{"500", answers(500, "text/plain", "no"), BadStatus},
		{"connection refused", nil, ConnectFailed},
		{"reset", breaks, Reset},
		{"error in a 200", answers(200, "application/json", `{"error":{"message":"x"}}`), ReportedError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan struct{}, 16) // more than there are legs, so that no server waits
			started := make(chan struct{}, 16)
			p2 := newEngine(t, "p2", answers(200, "application/json", `{}`))
			p := newEngine(t, "p", tt.play)
			wait := func(w http.ResponseWriter, r *http.Request) { // until the decode leg is there
				select {
				case <-started:
					tt.play(w, r)
				case <-r.Context().Done():
				}
			}
			if tt.play != nil {
				p = newEngine(t, "p", wait)
			}
			var d *engine
			d = newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
				started <- struct{}{}
				all := d.requests()
				m := meeting(t, all[len(all)-1].body)
				for _, g := range p2.requests() { // it answers when its room is taken
					if meeting(t, g.body).Room == m.Room {
						decodes()(w, r)
						return
					}
				}
				if m.Room == 0 {
					decodes()(w, r)
					return
				}
				for range 2000 {
					select {
					case <-r.Context().Done():
						left <- struct{}{}
						return
					case <-time.After(5 * time.Millisecond):
						for _, g := range p2.requests() {
							if meeting(t, g.body).Room == m.Room {
								decodes()(w, r)
								return
							}
						}
					}
				}
			})
			r := newRig(t, SGLang, p)
			r.plan.Policy.OnFailure = []Action{Fail}
			a := r.do(d)
			if tt.want == BadStatus {
				if a.status != 500 || a.body != "no" || a.report.Served != ByPrefillAlone {
					t.Errorf("Fail: %+v", a)
				}
			} else if !isPrefillError(a.err, tt.want) {
				t.Errorf("Fail: %+v", a)
			}
			r.watch.told(t)
			eventually(t, "the decode leg has ended", func() bool { return d.busy() == 0 })

			r.watch = &watched{}
			r.plan.Prefill = append(r.plan.Prefill, p2.Endpoint)
			r.plan.Policy.OnFailure = []Action{RetryOther, Fail}
			if a = r.do(d); a.status != 200 || a.report.Served != ByDecode || len(a.report.Attempts) != 2 || a.report.Attempts[0].Reason != tt.want {
				t.Errorf("RetryOther: %+v", a)
			}
			r.watch.told(t)

			r.plan.Prefill, r.plan.Policy.OnFailure = r.plan.Prefill[:1], []Action{LocalPrefill}
			if a = r.do(d); a.status != 200 || a.report.Served != ByDecodeAlone || a.report.Reason != tt.want {
				t.Errorf("LocalPrefill: %+v", a)
			}
			if !slices.ContainsFunc(d.requests(), func(g got) bool { return g.body == r.body }) {
				t.Errorf("LocalPrefill: the client's own body was not sent: %v", d.requests())
			}
		})
	}
}

// A prefill leg may fail after the answer has begun: then the client sees it break.
func TestPrefillFailsAfterTheFirstByte(t *testing.T) {
	begun := make(chan struct{})
	p := newEngine(t, "p", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-begun:
		case <-r.Context().Done():
		}
		answers(500, "text/plain", "no")(w, r)
	})
	d := newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	r := newRig(t, SGLang, p)
	resp, run, err := r.runner.Do(t.Context(), &r.plan, r.request(), d.Endpoint, r.watch)
	if err != nil {
		t.Fatal(err)
	}
	close(begun)
	raw, err := io.ReadAll(resp.Body)
	if string(raw) != "data: {}\n\n" || !isPrefillError(err, BadStatus) {
		t.Errorf("%q, %v", raw, err)
	}
	_ = resp.Body.Close()
	_ = resp.Body.Close()
	if rep := run.Report(); rep.Reason != BadStatus || len(rep.Attempts) != 1 {
		t.Errorf("%+v", rep)
	}
}

// A decode leg that fails takes the prefill leg with it.
func TestDecodeFailsFirst(t *testing.T) {
	for name, play := range map[string]http.HandlerFunc{"refused": nil, "reset": breaks, "500": answers(500, "text/plain", "d broke"), "400": answers(400, "text/plain", "d broke")} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			p := newEngine(t, "p", hangs(left))
			d := newEngine(t, "d", play)
			if play != nil {
				d = newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
					eventually(t, "the prefill leg is under way", func() bool { return len(p.requests()) == 1 })
					play(w, r)
				})
			}
			r := newRig(t, SGLang, p)
			r.plan.Policy.OnFailure = []Action{RetryOther, LocalPrefill}
			a := r.do(d)
			switch name {
			case "500", "400":
				if a.err != nil || a.body != "d broke" || a.report.Served != ByDecode {
					t.Errorf("%+v", a)
				}
			default:
				if a.err == nil || isPrefillError(a.err, Abandoned) || a.report.Served != Nobody {
					t.Errorf("%+v", a)
				}
			}
			if len(p.requests()) == 1 {
				<-left
			}
			if diff := cmp.Diff([]string{"begin p", "end p abandoned"}, r.watch.told(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// When both fail, whose fault it is the prefill leg knows.
func TestBothFail(t *testing.T) {
	p, d := newEngine(t, "p", nil), newEngine(t, "d", answers(500, "text/plain", "KV transfer failed"))
	r := newRig(t, SGLang, p)
	r.plan.Policy.OnFailure = []Action{Fail}
	if a := r.do(d); !isPrefillError(a.err, ConnectFailed) {
		t.Errorf("%+v", a)
	}
}
