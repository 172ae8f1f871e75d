package fanout

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an Instance that does with a call what a test says.
type fake struct {
	timeout time.Duration
	start   func(c *Call)

	mu    sync.Mutex
	ended []Ending
}

func (f *fake) Timeout() time.Duration { return f.timeout }
func (f *fake) Start(c *Call)          { f.start(c) }
func (f *fake) End(_ *Call, _ *route.Scores, e Ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, e)
}

func (f *fake) endings() []Ending {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Ending(nil), f.ended...)
}

func newFan(t testing.TB, timeout time.Duration) *Fan {
	t.Helper()
	f, err := New(Config{Timeout: timeout}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newCycle(t testing.TB, endpoints int) (*route.Cycle, []int32) {
	t.Helper()
	var es []roster.Endpoint
	var all []int32
	for i := range endpoints {
		es = append(es, roster.Endpoint{ID: roster.ID("e" + strconv.Itoa(1000+i)), Host: "10.0.0.1", Port: uint16(8000 + i)})
		all = append(all, int32(i))
	}
	table, err := roster.NewTable(es)
	if err != nil {
		t.Fatal(err)
	}
	r := roster.New(roster.Config{})
	r.SetTable(table)
	req := &route.Request{ID: "r1", Model: "m", MaxOutputTokens: -1, Headers: route.NoHeaders{}}
	return &route.Cycle{Request: req, Snapshot: r.Snapshot(), Now: r.Now()}, all
}

// scores answers with one value for everybody.
func scores(c *Call, v float32) (Breach, bool) {
	s := make([]float32, len(c.Candidates()))
	for i := range s {
		s[i] = v
	}
	if !c.Claim() {
		return Breach{}, false
	}
	checked, breach := c.Check(&scorerv1.ScoreResponse{Scores: s}, Expect{})
	c.Settle(checked)
	return breach, true
}

func ask(ctx context.Context, f *Fan, c *route.Cycle, all []int32, instances ...Instance) []route.Scores {
	scorers := make([]route.Scorer, len(instances))
	for i, in := range instances {
		scorers[i] = route.Scorer{Plugin: strconv.Itoa(i), Asked: in}
	}
	out := make([]route.Scores, len(scorers))
	f.Score(ctx, c, scorers, all, out)
	return out
}

func verdicts(out []route.Scores) []string {
	var v []string
	for _, s := range out {
		v = append(v, s.Verdict.String())
	}
	return v
}

func TestScore(t *testing.T) {
	atOnce := func() *fake { return &fake{start: func(c *Call) { scores(c, 1) }} }
	elsewhere := func() *fake {
		return &fake{start: func(c *Call) {
			c.Hold()
			go func() { defer c.Release(); scores(c, 0.5) }()
		}}
	}
	never := func(timeout time.Duration) *fake { return &fake{timeout: timeout, start: func(*Call) {}} }
	for _, tc := range []struct {
		name      string
		timeout   time.Duration
		instances []*fake
		want      []string
		endings   []Ending
	}{
		{"at once and elsewhere", 10 * time.Second, []*fake{atOnce(), elsewhere()}, []string{"scored", "scored"}, []Ending{Answered, Answered}},
		{"one never answers", time.Second, []*fake{elsewhere(), never(0)}, []string{"scored", "timeout"}, []Ending{Answered, Late}},
		{"nobody answers", 5 * time.Millisecond, []*fake{never(0), never(0)}, []string{"timeout", "timeout"}, []Ending{Late, Late}},
		{"its own time is shorter than everybody's", 10 * time.Second, []*fake{never(5 * time.Millisecond), elsewhere()}, []string{"timeout", "scored"}, []Ending{Late, Answered}},
		{"its own time is longer than everybody's", 5 * time.Millisecond, []*fake{never(time.Hour)}, []string{"timeout"}, []Ending{Late}},
		{
			"refused", 10 * time.Second,
			[]*fake{{start: func(c *Call) { c.Refuse(route.Skipped, "breaker open") }}, elsewhere()},
			[]string{"skipped", "scored"}, []Ending{Answered, Answered},
		},
		{
			"breach", 10 * time.Second,
			[]*fake{{start: func(c *Call) { scores(c, 2) }}},
			[]string{"failed"}, []Ending{Answered},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, all := newCycle(t, 4)
			var in []Instance
			for _, f := range tc.instances {
				in = append(in, f)
			}
			out := ask(t.Context(), newFan(t, tc.timeout), c, all, in...)
			if diff := cmp.Diff(tc.want, verdicts(out)); diff != "" {
				t.Error(diff)
			}
			for i, f := range tc.instances {
				if diff := cmp.Diff([]Ending{tc.endings[i]}, f.endings()); diff != "" {
					t.Errorf("instance %d: %s", i, diff)
				}
				if out[i].Verdict != route.Scored && out[i].Reason == "" {
					t.Errorf("instance %d gave no reason", i)
				}
			}
		})
	}
}

func TestNothingToAsk(t *testing.T) {
	f := newFan(t, time.Second)
	c, all := newCycle(t, 4)
	counted := &fake{start: func(c *Call) { scores(c, 1) }}
	for name, candidates := range map[string][]int32{"none": {}, "out of order": {2, 1}, "too many": make([]int32, maxCandidates+1)} {
		if out := ask(t.Context(), f, c, candidates, counted); out[0].Verdict != route.Skipped || out[0].Reason == "" {
			t.Errorf("%s: %+v", name, out[0])
		}
	}
	if n := len(counted.endings()); n != 0 {
		t.Errorf("the scorer was asked %d times", n)
	}
	out := make([]route.Scores, 1)
	f.Score(t.Context(), c, []route.Scorer{{Asked: "something else"}}, all, out)
	if out[0].Verdict != route.Skipped {
		t.Errorf("a scorer that cannot be asked: %+v", out[0])
	}
	f.Score(t.Context(), c, nil, all, nil) // no scorer at all returns at once
}

func TestGivenUpRequestReturnsAtOnce(t *testing.T) {
	f := newFan(t, time.Hour)
	c, all := newCycle(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	never := &fake{start: func(*Call) { cancel() }}
	out := ask(ctx, f, c, all, never)
	if diff := cmp.Diff([]Ending{GivenUp}, never.endings()); diff != "" {
		t.Error(diff)
	}
	if out[0].Verdict != route.TimedOut {
		t.Errorf("%+v", out[0])
	}
}

// A caller in a hurry must not make a scorer look slow.
func TestDeadlineOfTheCaller(t *testing.T) {
	c, all := newCycle(t, 4)
	for name, tc := range map[string]struct {
		timeout time.Duration
		want    Ending
	}{"much shorter than ours": {time.Hour, GivenUp}, "about ours": {750 * time.Millisecond, Late}} {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		never := &fake{start: func(*Call) {}}
		ask(ctx, newFan(t, tc.timeout), c, all, never)
		cancel()
		if diff := cmp.Diff([]Ending{tc.want}, never.endings()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// Said in the request it is the same, but that the context goes on.
		c.Request.Deadline = time.Now().Add(700 * time.Millisecond)
		never = &fake{start: func(*Call) {}}
		out := ask(t.Context(), newFan(t, tc.timeout), c, all, never)
		c.Request.Deadline = time.Time{}
		if diff := cmp.Diff([]Ending{tc.want}, never.endings()); diff != "" || out[0].Verdict != route.TimedOut {
			t.Errorf("%s, in the request: %s, %+v", name, diff, out[0])
		}
	}
}

// Late answers come after the request has its result, and while the same memory
// serves other requests; they must change neither. Run with -race.
func TestLateAnswersTouchNothing(t *testing.T) {
	f := newFan(t, 2*time.Millisecond)
	var late sync.WaitGroup
	var inTime, tooLate atomic.Int64
	slow := &fake{start: func(c *Call) {
		c.Hold()
		late.Go(func() {
			defer c.Release()
			time.Sleep(3 * time.Millisecond)
			if _, ok := scores(c, 0.25); ok {
				inTime.Add(1)
			} else {
				tooLate.Add(1)
			}
		})
	}}
	quick := &fake{start: func(c *Call) {
		c.Hold()
		late.Go(func() { defer c.Release(); scores(c, 0.75) })
	}}
	c, all := newCycle(t, 16)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 50 {
				out := ask(context.Background(), f, c, all, slow, quick)
				for i, want := range []float32{0.25, 0.75} {
					if out[i].Verdict != route.Scored {
						continue
					}
					for _, v := range out[i].Values {
						if v != want {
							t.Errorf("scorer %d: %v, want %v", i, v, want)
						}
					}
				}
			}
		})
	}
	callers.Wait()
	late.Wait()
	if tooLate.Load() == 0 {
		t.Error("no answer was late")
	}
	if got := int64(len(slow.endings())); got != 400 || inTime.Load()+tooLate.Load() != 400 {
		t.Errorf("%d endings, %d answers in time and %d late; want 400", got, inTime.Load(), tooLate.Load())
	}
}

type prompt struct{ asked []string }

func (p *prompt) Blocks(size, limit int) []uint64 {
	p.asked = append(p.asked, strconv.Itoa(size)+"/"+strconv.Itoa(limit))
	return make([]uint64, min(limit, 4))
}
func (*prompt) Text() string { return "secret" }

type headers map[string]string

func (h headers) Get(name string) string { return h[name] }

// A scorer is told what it asked for and nothing else.
func TestInference(t *testing.T) {
	full := route.Request{
		ID: "r1", Model: "m", Adapter: "a", SessionKey: "s", PromptTokens: 7, MaxOutputTokens: 9, Priority: -1,
		Headers: headers{"x-zone": "b", "authorization": "Bearer x"},
	}
	base := func() *scorerv1.InferenceRequest {
		return &scorerv1.InferenceRequest{
			RequestId: "r1", Model: "m", Adapter: "a", SessionKey: "s", Priority: -1,
			PromptTokenCount: proto.Uint32(7), MaxOutputTokenCount: proto.Uint32(9),
		}
	}
	for _, tc := range []struct {
		name  string
		needs []Needs
		req   func(*route.Request)
		want  func(m *scorerv1.InferenceRequest)
		asked []string
	}{
		{name: "nothing asked for", needs: []Needs{{}}, want: func(*scorerv1.InferenceRequest) {}},
		{
			name:  "blocks, computed once for two that ask alike",
			needs: []Needs{{Prefix: true, BlockSize: 64, BlockLimit: 256}, {Prefix: true, BlockSize: 64, BlockLimit: 256}},
			want: func(m *scorerv1.InferenceRequest) {
				m.Prefix = &scorerv1.PrefixBlocks{Scheme: route.Scheme, BlockSizeBytes: 64, Hashes: make([]uint64, 4)}
			},
			asked: []string{"64/256"},
		},
		{
			name:  "another size",
			needs: []Needs{{Prefix: true, BlockSize: 64, BlockLimit: 256}, {Prefix: true, BlockSize: 16, BlockLimit: 2}},
			want: func(m *scorerv1.InferenceRequest) {
				m.Prefix = &scorerv1.PrefixBlocks{Scheme: route.Scheme, BlockSizeBytes: 16, Hashes: make([]uint64, 2)}
			},
			asked: []string{"64/256", "16/2"},
		},
		{
			name: "blocks of the cache's size, which nobody tells", needs: []Needs{{Prefix: true, BlockSize: 16, BlockLimit: 2, FollowsCache: true}},
			want: func(m *scorerv1.InferenceRequest) {
				m.Prefix = &scorerv1.PrefixBlocks{Scheme: route.Scheme, BlockSizeBytes: 16, Hashes: make([]uint64, 2)}
			},
			asked: []string{"16/2"},
		},
		{name: "prompt text", needs: []Needs{{PromptText: true}}, want: func(m *scorerv1.InferenceRequest) { m.PromptText = "secret" }},
		{
			name: "headers by name", needs: []Needs{{Headers: []string{"x-zone", "x-none"}}},
			want: func(m *scorerv1.InferenceRequest) { m.Headers = []*scorerv1.Header{{Name: "x-zone", Value: "b"}} },
		},
		{
			name: "body not understood", needs: []Needs{{Prefix: true, BlockSize: 64, BlockLimit: 256, PromptText: true}},
			req:  func(r *route.Request) { r.Prompt, r.PromptTokens, r.MaxOutputTokens = nil, 0, -1 },
			want: func(m *scorerv1.InferenceRequest) { m.PromptTokenCount, m.MaxOutputTokenCount = nil, nil },
		},
		{
			name: "a limit beyond all bounds", needs: []Needs{{}},
			req:  func(r *route.Request) { r.MaxOutputTokens = 1 << 40 },
			want: func(m *scorerv1.InferenceRequest) { m.MaxOutputTokenCount = proto.Uint32(1<<32 - 1) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, all := newCycle(t, 4)
			req, p := full, &prompt{}
			req.Prompt = p
			if tc.req != nil {
				tc.req(&req)
			}
			c.Request = &req
			want := base()
			tc.want(want)
			f := newFan(t, time.Second)
			for range 2 { // the second time with used memory
				p.asked = nil
				var last *scorerv1.InferenceRequest
				var in []Instance
				for _, n := range tc.needs {
					in = append(in, &fake{start: func(call *Call) {
						last = proto.CloneOf(call.Inference(&n))
						call.Refuse(route.Skipped, "enough")
					}})
				}
				ask(t.Context(), f, c, all, in...)
				if diff := cmp.Diff(want, last, protocmp.Transform()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tc.asked, p.asked); diff != "" {
					t.Errorf("blocks asked for: %s", diff)
				}
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	c, all := newCycle(t, 4)
	f := newFan(t, time.Second)
	for name, tc := range map[string]struct {
		candidates []int32
		whole      bool
	}{"all": {all, true}, "some": {[]int32{1, 3}, false}} {
		var got []uint32
		var whole bool
		ask(t.Context(), f, c, tc.candidates, &fake{start: func(call *Call) {
			got, whole = append([]uint32(nil), call.Candidates()...), call.WholeTable()
			scores(call, 1)
		}})
		var want []uint32
		for _, p := range tc.candidates {
			want = append(want, uint32(p))
		}
		if diff := cmp.Diff(want, got); diff != "" || whole != tc.whole {
			t.Errorf("%s: whole %v %s", name, whole, diff)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	if _, err := New(Config{}, nil); err == nil || !strings.Contains(err.Error(), "above zero") {
		t.Errorf("a time of zero: %v", err)
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{1, 3} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFan(b, 20*time.Millisecond)
			c, all := newCycle(b, 128)
			resp := &scorerv1.ScoreResponse{Scores: make([]float32, 128)}
			scorers := make([]route.Scorer, n)
			for i := range scorers {
				scorers[i].Asked = &silent{resp}
			}
			out := make([]route.Scores, n)
			b.ReportAllocs()
			for b.Loop() {
				f.Score(context.Background(), c, scorers, all, out)
			}
		})
	}
}

// silent answers at once and remembers nothing.
type silent struct{ resp *scorerv1.ScoreResponse }

func (*silent) Timeout() time.Duration { return 0 }
func (s *silent) Start(c *Call) {
	if c.Claim() {
		scores, _ := c.Check(s.resp, Expect{})
		c.Settle(scores)
	}
}
func (*silent) End(*Call, *route.Scores, Ending) {}
