package decisions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// picker is a route.Picker that only has a name.
type picker struct{}

func (picker) Name() string { return "max-score-picker" }
func (picker) Max() int     { return 2 }
func (picker) Pick(*route.Cycle, []int32, []float64, []int64, int, []int32) ([]int32, string) {
	return nil, ""
}

// secret is a prompt that must not be kept.
type secret struct{}

func (secret) Blocks(int, int) []uint64 { return nil }
func (secret) Text() string             { return "secret" }

func decided(t *testing.T, id string) *route.Decision {
	t.Helper()
	tb, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1}, {ID: "b", Host: "h", Port: 2}, {ID: "c", Host: "h", Port: 3}})
	if err != nil {
		t.Fatal(err)
	}
	r := roster.New(roster.Config{})
	r.SetTable(tb)
	s := r.Snapshot()
	return &route.Decision{
		Request: &route.Request{ID: id, Model: "m", Path: "/v1/completions", PromptTokens: 9, Prompt: secret{}, Headers: route.NoHeaders{}}, Snapshot: s,
		Endpoint: &s.Table.Endpoints[2], Fallbacks: []*roster.Endpoint{&s.Table.Endpoints[0]}, Elapsed: time.Millisecond,
		Results: []*route.ProfileResult{{
			Profile: &route.Profile{Name: "default", Picker: picker{}, Scorers: []route.Scorer{
				{Plugin: "queue-scorer", Type: "queue-scorer", Service: "scorer-queue", Weight: 2}, {Plugin: "late", Weight: 1}, {Plugin: "never", Weight: 1},
			}},
			Candidates: []int32{0, 2}, Totals: []float64{0.5, 1.5}, InFlight: []int64{0, 0}, Ranked: []int32{1, 0}, TieBreak: "none",
			Scores: []route.Scores{{Verdict: route.Scored, Values: []float32{0.25, 0.75}, StateAge: -1}, {Verdict: route.TimedOut, Reason: "20ms passed"}},
		}},
	}
}

func TestSummaryKeepsWhatDecided(t *testing.T) {
	d := decided(t, "r1")
	got := Summarise(d)
	if &got.Fallbacks[0] == &d.Fallbacks[0] {
		t.Error("it keeps an array of the decision, and so all of it")
	}
	if got.Endpoint.ID != "c" || len(got.Fallbacks) != 1 || got.Endpoints != 3 || got.RequestID != "r1" {
		t.Errorf("summary %+v", got)
	}
	p := got.Profiles[0]
	if p.Total != 1.5 || len(p.Picked) != 2 || p.Picked[0].ID != "c" {
		t.Errorf("profile %+v", p)
	}
	want := []Scorer{
		{Plugin: "queue-scorer", Type: "queue-scorer", Service: "scorer-queue", Weight: 2, Verdict: route.Scored, StateAge: -1, PickedScore: 0.75},
		{Plugin: "late", Weight: 1, Verdict: route.TimedOut, Reason: "20ms passed", PickedScore: -1},
		{Plugin: "never", Weight: 1, Verdict: route.Skipped, Reason: "not asked", StateAge: -1, PickedScore: -1},
	}
	if d := cmp.Diff(want, p.Scorers); d != "" {
		t.Error(d)
	}
}

func TestPathsThatAClientMadeUp(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"as it is":      {"/v1/completions", "/v1/completions"},
		"not UTF-8":     {"/v1/\xff\xfe/x", "/v1/\uFFFD/x"}, // gRPC refuses to send such a string, to every watcher
		"endless":       {"/v1/" + strings.Repeat("a", 1<<20), "/v1/" + strings.Repeat("a", maxPath-4) + "…"},
		"cut in a rune": {strings.Repeat("a", maxPath-1) + "é and more", strings.Repeat("a", maxPath-1) + "\uFFFD…"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decided(t, "r")
			d.Request.Path = c.path
			if got := Summarise(d).Path; got != c.want {
				t.Errorf("path of %d bytes %.80q, want %.80q", len(got), got, c.want)
			}
		})
	}
}

func TestSummaryOfAFailure(t *testing.T) {
	d := decided(t, "r1")
	d.Endpoint, d.Fallbacks, d.Err = nil, nil, fmt.Errorf("%w: pool is empty", route.ErrNoEndpoint)
	d.Results = []*route.ProfileResult{{Profile: d.Results[0].Profile, Err: errors.New("nobody fits")}}
	got := Summarise(d)
	if got.Err == "" || got.Profiles[0].Err != "nobody fits" || got.Profiles[0].Picked != nil {
		t.Errorf("summary %+v", got)
	}
}

func TestWatchersSeePastAndNew(t *testing.T) {
	l := NewLog()
	for i := range kept + 5 {
		l.Decided(decided(t, fmt.Sprint(i)))
	}
	entries, stop := l.Watch(3, false)
	defer stop()
	l.Decided(decided(t, "new"))
	var got []string
	for range 4 {
		got = append(got, (<-entries).Summary.RequestID)
	}
	if d := cmp.Diff([]string{"1002", "1003", "1004", "new"}, got); d != "" {
		t.Error(d)
	}
}

func TestASlowWatcherLosesDecisionsAndIsTold(t *testing.T) {
	l := NewLog()
	entries, stop := l.Watch(0, false)
	defer stop()
	for i := range watchBuffer + 7 {
		l.Decided(decided(t, fmt.Sprint(i)))
	}
	for range watchBuffer {
		if e := <-entries; e.Dropped != 0 {
			t.Fatalf("told of %d lost before any was", e.Dropped)
		}
	}
	l.Decided(decided(t, "after"))
	if e := <-entries; e.Dropped != 7 || e.Summary.RequestID != "after" {
		t.Errorf("dropped %d before %q, want 7", e.Dropped, e.Summary.RequestID)
	}
}

func TestFullDecisionsHoldNoPrompt(t *testing.T) {
	l := NewLog()
	if l.WantsCandidates() {
		t.Error("candidates wanted by nobody")
	}
	entries, stop := l.Watch(0, true)
	if !l.WantsCandidates() {
		t.Error("candidates not wanted by the watcher that wants them")
	}
	l.Decided(decided(t, "r"))
	e := <-entries
	if e.Full == nil || e.Full.Request.Prompt != nil || e.Full.Request.ID != "r" {
		t.Errorf("full decision %+v", e.Full)
	}
	stop()
	stop()
	if l.WantsCandidates() {
		t.Error("still wanted after the watcher left")
	}
}

func BenchmarkDecided(b *testing.B) {
	l, d := NewLog(), decided(&testing.T{}, "r")
	b.ReportAllocs()
	for b.Loop() {
		l.Decided(d)
	}
}
