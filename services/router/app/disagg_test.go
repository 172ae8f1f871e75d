package app

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/roster"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/front/grpcapi"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// disaggConfig is the rows' configuration: prefill by role and prefix, decode by load,
// 2 tokens.
const disaggConfig = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: DECIDER}, POLICY}}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 2}}
- {type: always-disagg-pd-decider}
- {type: decode-filter}
- {type: prefill-filter}
- {type: prefix-cache-scorer}
- {type: queue-scorer}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer, weight: 50}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer, weight: 1}]
- name: whole
  plugins: [{pluginRef: queue-scorer, weight: 1}]
`

// memory is a prefix index in blocks of 4 bytes, and a queue scorer: it resolves types to
// scorers that answer at once.
type memory struct {
	mu     sync.Mutex
	hashes []uint64 // of the last prompt
	holds  map[roster.ID]map[uint64]bool
	broken bool // the index does not answer
}

func (*memory) Types() []string { return []string{"queue-scorer", "prefix-cache-scorer"} }

func (m *memory) Resolve(_, scorerType string, _ []byte) (string, any, bool, []string, error) {
	if scorerType == "queue-scorer" {
		return "test", &idle{}, false, nil, nil
	}
	return "test", &index{memory: m, needs: fanout.Needs{Prefix: true, BlockSize: 4, BlockLimit: 256}}, false, nil, nil
}

// learn has the endpoint hold the last prompt.
func (m *memory) learn(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.holds[roster.ID(id)]
	if held == nil {
		held = map[uint64]bool{}
		m.holds[roster.ID(id)] = held
	}
	for _, h := range m.hashes {
		held[h] = true
	}
}

// idle rates by waiting requests.
type idle struct{}

func (*idle) Timeout() time.Duration                         { return 0 }
func (*idle) End(*fanout.Call, *route.Scores, fanout.Ending) {}
func (*idle) Start(c *fanout.Call) {
	s := route.Scores{Verdict: route.Scored}
	for _, pos := range c.Candidates() {
		s.Values = append(s.Values, 1/float32(1+max(0, c.Snapshot().Waiting[pos])))
	}
	c.Answer(s)
}

// index rates by what of the prompt is held.
type index struct {
	*memory
	needs fanout.Needs
}

func (*index) Timeout() time.Duration                         { return 0 }
func (*index) End(*fanout.Call, *route.Scores, fanout.Ending) {}
func (x *index) PrefixNeeds(*roster.Table) (size, limit int)  { return 4, 256 }
func (x *index) Start(c *fanout.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken {
		c.Refuse(route.Failed, "broken")
		return
	}
	x.hashes = slices.Clone(c.Inference(&x.needs).GetPrefix().GetHashes())
	s := route.Scores{Verdict: route.Scored, BlockSize: 4, Blocks: len(x.hashes)}
	for _, pos := range c.Candidates() {
		n := 0
		for n < len(x.hashes) && x.holds[c.Snapshot().Table.Endpoints[pos].ID][x.hashes[n]] {
			n++
		}
		s.Matched = append(s.Matched, uint32(n))
		s.Values = append(s.Values, float32(n)/float32(max(1, len(x.hashes))))
	}
	c.Answer(s)
}

// station is a router of which everything is there but NATS and the scorers' transport.
type station struct {
	*router
	*memory
	t        testing.TB
	describe grpcapi.Describe
}

// place returns a router over endpoints of these roles, "" for none, in the order of their
// addresses.
func place(t testing.TB, text string, roles ...string) *station {
	t.Helper()
	o, err := parse([]string{"--set", "listen.extProc.secureServing=false"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := &station{memory: &memory{holds: map[roster.ID]map[uint64]bool{}}, t: t}
	if s.router, err = build(o); err != nil {
		t.Fatal(err)
	}
	parser, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	s.describe = describer{parser, s.gate}.describe
	s.use(text)
	var list []roster.Endpoint
	for i, role := range roles {
		e := roster.Endpoint{ID: roster.ID(fmt.Sprintf("%s-%d", role, i)), Host: "127.0.0.1", Port: uint16(9000 + i)}
		if role != "" {
			e.Labels = []roster.Label{{Name: "llm-d.ai/role", Value: role}}
		}
		list = append(list, e)
	}
	table, err := roster.NewTable(list)
	if err != nil {
		t.Fatal(err)
	}
	s.roster.SetTable(table)
	return s
}

func (s *station) use(text string) {
	s.t.Helper()
	loaded, err := epconfig.Load("test", []byte(text), epconfig.Deps{Scorers: s.memory})
	if err != nil {
		s.t.Fatal(err)
	}
	s.useConfiguration(loaded)
}

// described is a completion of the prompt.
func described(prompt string) *routerv1.RequestDescription {
	return &routerv1.RequestDescription{Path: "/v1/completions", Body: fmt.Appendf(nil, `{"model":"m","prompt":%q}`, prompt), Headers: []*routerv1.Header{{Name: "X-Prefiller-Host-Port", Value: "169.254.169.254:80"}}}
}

// pick picks for a prompt, has all endpoints that take part learn it, and releases.
func (s *station) pick(prompt string) (string, error) {
	s.t.Helper()
	m, err := s.api.Pick(s.t.Context(), &routerv1.PickRequest{Request: described(prompt)})
	if err != nil {
		return "", err
	}
	out := "decode " + m.GetEndpoint().GetEndpointId()
	s.learn(m.GetEndpoint().GetEndpointId())
	for _, g := range m.GetStages() {
		out += " " + g.GetStage() + " " + g.GetEndpoints()[0].GetEndpointId()
		s.learn(g.GetEndpoints()[0].GetEndpointId())
	}
	for _, g := range m.GetSkippedStages() {
		out += " no " + g.GetStage() + " " + g.GetReason()
	}
	prefiller := ""
	for _, h := range m.GetRequestHeaders() {
		if h.GetName() == "x-prefiller-host-port" {
			prefiller += h.GetValue()
		}
	}
	want := ""
	if len(m.GetStages()) > 0 {
		want = m.GetStages()[0].GetEndpoints()[0].GetAddress()
	}
	if prefiller != want {
		s.t.Errorf("the header says %q, the stages %q", prefiller, want)
	}
	for _, name := range []string{"x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-prefiller-url"} { // B214
		if !slices.Contains(m.GetRemovedRequestHeaders(), name) {
			s.t.Errorf("a client's %s may stay", name)
		}
	}
	if _, err := s.api.Release(s.t.Context(), &routerv1.ReleaseRequest{PickId: m.GetPickId(), Completed: true}); err != nil {
		s.t.Error(err)
	}
	return out, nil
}

// idleAgain checks that nothing is reserved.
func (s *station) idleAgain() {
	s.t.Helper()
	snap := s.roster.Snapshot()
	for i := range snap.Len() {
		if snap.InFlight(i) != 0 || snap.InFlightTokens(i) != 0 {
			s.t.Errorf("%s has %d requests and %d tokens", snap.Table.Endpoints[i].ID, snap.InFlight(i), snap.InFlightTokens(i))
		}
	}
	if n := s.tel.Value("pointsman_router_reservations"); n != 0 {
		s.t.Errorf("%v reservations are left", n)
	}
}

func configured(decider, policy string) string {
	return strings.NewReplacer("DECIDER", decider, ", POLICY", policy).Replace(disaggConfig)
}

// The rows C of a whole scheduler. Tokens are 4 bytes each, rounded up, where the rows
// round down: "12345" has two here, so C5 is about "1234".
func TestSchedulerRows(t *testing.T) {
	const prefix, always = "prefix-based-pd-decider", "always-disagg-pd-decider"
	forty := strings.Repeat("0123456789", 4)
	for _, c := range []struct {
		id      string
		config  string
		roles   []string
		prompts []string
		broken  bool
		want    []string // per prompt; an error by its code
	}{
		{"C1 nobody", configured(prefix, ""), nil, []string{"12345678901"}, false, []string{"Unavailable"}},
		{"C1 only prefill", configured(prefix, ""), []string{"prefill"}, []string{"12345678901"}, false, []string{"Unavailable"}},
		{"C2 only decode", configured(prefix, ""), []string{"decode"}, []string{"12345678901"}, false, []string{"decode decode-0 no prefill no-endpoint"}},
		{"C4 both, then cached", configured(prefix, ""), []string{"prefill", "decode"}, []string{"12345678901", "12345678901"}, false, []string{"decode decode-1 prefill prefill-0", "decode decode-1 no prefill decider-declined"}},
		{"C5 short", configured(prefix, ""), []string{"prefill", "decode"}, []string{"1234"}, false, []string{"decode decode-1 no prefill decider-declined"}},
		{"C7 one without a role decodes", configured(prefix, ""), []string{"prefill", ""}, []string{forty, forty}, false, []string{"decode -1 prefill prefill-0", "decode -1 no prefill decider-declined"}},
		{"B157 always, and nobody prefills", configured(always, ""), []string{"decode"}, []string{forty}, false, []string{"decode decode-0 no prefill no-endpoint"}},
		{"B157 always, and Fail", configured(always, ", onPrefillFailure: Fail"), []string{"decode"}, []string{forty}, false, []string{"Unavailable"}},
		{"B157 declined is no failure", configured(prefix, ", onPrefillFailure: Fail"), []string{"prefill", "decode"}, []string{"1234"}, false, []string{"decode decode-1 no prefill decider-declined"}},
		{"B157 the index is broken", configured(prefix, ""), []string{"prefill", "decode"}, []string{forty}, true, []string{"decode decode-1 no prefill match-unknown"}},
		{"B158 nobody decodes", configured(always, ", profiles: {fallback: whole}"), []string{"prefill"}, []string{forty}, false, []string{"decode prefill-0 no prefill fallback-profile"}},
		{"B158 nobody at all", configured(always, ", profiles: {fallback: whole}"), nil, []string{forty}, false, []string{"Unavailable"}},
		{"one that does both", configured(always, ""), []string{"both"}, []string{forty}, false, []string{"decode both-0 no prefill same-endpoint"}},
	} {
		t.Run(c.id, func(t *testing.T) {
			s := place(t, c.config, c.roles...)
			s.broken = c.broken
			for i, prompt := range c.prompts {
				got, err := s.pick(prompt)
				if err != nil {
					got = status.Code(err).String()
				}
				if d := cmp.Diff(c.want[i], got); d != "" {
					t.Errorf("prompt %d: %s", i, d)
				}
			}
			s.idleAgain()
		})
	}
}

// B158: when a decode endpoint is back, stages are too.
func TestB158RecoversByItself(t *testing.T) {
	s := place(t, configured("always-disagg-pd-decider", ", profiles: {fallback: whole}"), "prefill", "decode")
	both := s.roster.Snapshot().Table
	alone, err := roster.NewTable([]roster.Endpoint{both.Endpoints[1]})
	if err != nil || alone.Endpoints[0].ID != "prefill-0" {
		t.Fatal(alone, err)
	}
	var got []string
	for _, table := range []*roster.Table{both, alone, both} {
		s.roster.SetTable(table)
		where, err := s.pick("a prompt of some length")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, where)
	}
	staged, whole := "decode decode-1 prefill prefill-0", "decode prefill-0 no prefill fallback-profile"
	if d := cmp.Diff([]string{staged, whole, staged}, got); d != "" {
		t.Error(d)
	}
}

// A quarantine of all who decode, or of all who prefill where somebody must, is not
// heeded; that of all who prefill otherwise is: then it is done where it is decoded.
func TestQuarantineOfARole(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		out    []roster.ID
		want   string
	}{
		"who decodes":                    {"", []roster.ID{"decode-1"}, "decode decode-1 prefill prefill-0"},
		"who prefills":                   {"", []roster.ID{"prefill-0"}, "decode decode-1 no prefill no-endpoint"},
		"who prefills, who must":         {", onPrefillFailure: [RetryOther, Fail]", []roster.ID{"prefill-0"}, "decode decode-1 prefill prefill-0"},
		"who decodes, with a fall-back":  {", profiles: {fallback: whole}", []roster.ID{"decode-1"}, "decode prefill-0 no prefill fallback-profile"},
		"both":                           {"", []roster.ID{"decode-1", "prefill-0"}, "decode decode-1 prefill prefill-0"},
		"both, and there is a fall-back": {", profiles: {fallback: whole}", []roster.ID{"decode-1", "prefill-0"}, "decode decode-1 prefill prefill-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := place(t, configured("always-disagg-pd-decider", c.policy), "prefill", "decode")
			for _, id := range c.out {
				for range 10 {
					s.quarantine.Failed(id, "refused")
				}
			}
			if got, err := s.pick("a prompt of some length"); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
			s.idleAgain()
		})
	}
}

// Every request is counted by what it went through, and every stage that was done by the
// decoder by its reason; decisions show the same.
func TestWhatIsCountedAndShown(t *testing.T) {
	s := place(t, configured("prefix-based-pd-decider", ""), "prefill", "decode")
	for _, prompt := range []string{"a prompt of some length", "a prompt of some length", "1234"} {
		if _, err := s.pick(prompt); err != nil {
			t.Fatal(err)
		}
	}
	s.broken = true
	if _, err := s.pick("a prompt of some length"); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{
		"prefill-decode": s.tel.Value("pointsman_router_disaggregation_total", "type", "prefill-decode"),
		"decode-only":    s.tel.Value("pointsman_router_disaggregation_total", "type", "decode-only"),
		"declined":       s.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "decider-declined"),
		"unknown":        s.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "match-unknown"),
		"all":            s.tel.Value("pointsman_router_decode_only_total"),
	}
	if d := cmp.Diff(map[string]float64{"prefill-decode": 1, "decode-only": 3, "declined": 2, "unknown": 1, "all": 3}, got); d != "" {
		t.Error(d)
	}
	entries, stop := s.decisions.Watch(10, false)
	defer stop()
	first, second := (<-entries).Summary, (<-entries).Summary
	if first.Disaggregation != "prefill-decode" || len(first.Stages) != 1 || first.Stages[0].Endpoints[0].ID != "prefill-0" || first.Stages[0].Profile != "prefill" || len(first.Profiles) != 2 {
		t.Errorf("first %+v", first)
	}
	want := []route.Skip{{Stage: "prefill", Reason: "decider-declined", Words: "most of the prompt is cached where it is decoded", PromptTokens: 6, CachedTokens: 5}}
	if d := cmp.Diff(want, second.Skipped); d != "" || second.Disaggregation != "decode-only" || len(second.Stages) != 0 {
		t.Errorf("second %+v: %s", second, d)
	}
	m, err := s.api.Explain(t.Context(), &routerv1.ExplainRequest{Request: described("another prompt, of some length")})
	if err != nil {
		t.Fatal(err)
	}
	if d := m.GetDecision(); len(d.GetSkippedStages()) != 1 || d.GetSkippedStages()[0].GetReason() != "match-unknown" || d.GetDisaggregation() != "decode-only" {
		t.Errorf("explained %v", d)
	}
	s.idleAgain()
}

// A pick's caller can end a stage before the whole, and the whole without the stage.
func TestReleasingStages(t *testing.T) {
	s := place(t, configured("always-disagg-pd-decider", ""), "prefill", "decode")
	picked := func() *routerv1.PickResponse {
		m, err := s.api.Pick(t.Context(), &routerv1.PickRequest{Request: described("a prompt of some length")})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	release := func(id string) codes.Code {
		_, err := s.api.Release(t.Context(), &routerv1.ReleaseRequest{PickId: id, Completed: true})
		return status.Code(err)
	}
	counts := func() (n [4]int64) {
		snap := s.roster.Snapshot()
		for i, id := range []roster.ID{"decode-1", "prefill-0"} {
			pos, _ := snap.Table.Position(id)
			n[2*i], n[2*i+1] = snap.InFlight(pos), snap.InFlightTokens(pos)
		}
		return n
	}
	m := picked()
	if got, want := counts(), [4]int64{1, 0, 1, 6}; got != want {
		t.Errorf("picked: %v, want %v", got, want)
	}
	stage := m.GetStages()[0].GetPickId()
	if c := release(stage); c != codes.OK || counts() != [4]int64{1, 0, 0, 0} {
		t.Errorf("the stage: %v, %v", c, counts())
	}
	if c := release(stage); c != codes.NotFound {
		t.Errorf("the stage again: %v", c)
	}
	if c := release(m.GetPickId()); c != codes.OK {
		t.Errorf("the pick: %v", c)
	}
	s.idleAgain()
	m = picked()
	if c := release(m.GetPickId()); c != codes.OK {
		t.Errorf("the pick: %v", c)
	}
	if c := release(m.GetStages()[0].GetPickId()); c != codes.NotFound {
		t.Errorf("its stage afterwards: %v", c)
	}
	s.idleAgain()
	m = picked()
	s.api.Close()
	if c := release(m.GetPickId()); c != codes.NotFound {
		t.Errorf("after the router's end: %v", c)
	}
	s.idleAgain()
}

// Data-parallel ranks are reached at their server's primary port, and named in a header.
func TestRanks(t *testing.T) {
	text := "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}, {type: queue-scorer}]\n"
	s := place(t, text, "a")
	m, err := s.api.Pick(t.Context(), &routerv1.PickRequest{Request: described("x")})
	if err != nil {
		t.Fatal(err)
	}
	var rank string
	for _, h := range m.GetRequestHeaders() {
		if h.GetName() == "x-data-parallel-host-port" {
			rank = h.GetValue()
		}
	}
	if m.GetEndpoint().GetAddress() != "127.0.0.1:8000" || rank != "127.0.0.1:9000" || len(m.GetFallbacks()) != 0 {
		t.Errorf("%v, rank %q", m, rank)
	}
	if n := s.tel.Value("pointsman_router_disaggregation_total"); n != 0 {
		t.Errorf("%v requests are counted as staged", n)
	}
}

// Whatever carries stages out, and whenever it ends: nothing stays reserved, and no count
// goes below zero. Configurations change meanwhile.
func TestNothingLeaks(t *testing.T) {
	configs := []string{
		configured("always-disagg-pd-decider", ""), configured("prefix-based-pd-decider", ", onPrefillFailure: Fail"),
		configured("always-disagg-pd-decider", ", profiles: {fallback: whole}"), strings.Replace(configured("x", ""), "deciders: {prefill: x}", "stageOrder: prefill-first", 1),
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := place(t, configs[0], "prefill", "decode", "both", "prefill", "decode", "")
	full := s.roster.Snapshot().Table
	tables := []*roster.Table{full}
	for _, some := range [][]roster.Endpoint{full.Endpoints[:2], full.Endpoints[2:], full.Endpoints[4:]} {
		table, err := roster.NewTable(some)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, worker))
			for range 300 {
				if rnd.IntN(20) == 0 {
					s.use(configs[rnd.IntN(len(configs))])
					s.roster.SetTable(tables[rnd.IntN(len(tables))])
				}
				carry(s, rnd, full)
			}
		})
	}
	wg.Wait()
	s.roster.SetTable(full)
	s.idleAgain()
	for name, n := range map[string]float64{
		"staged": s.tel.Value("pointsman_router_disaggregation_total", "type", "prefill-decode"), "alone": s.tel.Value("pointsman_router_decode_only_total"),
	} {
		if n == 0 {
			t.Errorf("no request is %s", name)
		}
	}
}

// carry decides on a request and does by chance what those do that carry stages out.
func carry(s *station, rnd *rand.Rand, table *roster.Table) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(10) == 0 {
		cancel()
	}
	described, err := s.describe("", "/v1/completions", route.NoHeaders{}, fmt.Appendf(nil, `{"model":"m","prompt":"%d%s"}`, rnd.IntN(9), strings.Repeat(" of some length", rnd.IntN(3))))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer described.Done()
	d := s.scheduler.Decide(ctx, described.Request)
	if d.Endpoint == nil {
		if d.Reservation != nil || d.Plan != nil {
			s.t.Errorf("nobody, and yet %+v", d)
		}
		return
	}
	for range rnd.IntN(5) {
		to := &table.Endpoints[rnd.IntN(table.Len())]
		stage := d.Plan.Stage(route.StagePrefill)
		switch rnd.IntN(6) {
		case 0:
			d.Reservation.FirstToken()
		case 1:
			d.Reservation.Move(to)
		case 2:
			d.Reservation.Finish(rnd.IntN(2) == 0, route.NoUsage())
		case 3:
			if stage != nil {
				stage.Reservation.Move(to)
			}
		case 4:
			if stage != nil {
				stage.Reservation.Finish(true, route.NoUsage())
			}
		default:
			if stage != nil {
				d.TakeOver(stage)
			}
		}
	}
	d.Reservation.Finish(true, route.NoUsage())
}
