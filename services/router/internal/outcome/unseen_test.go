package outcome

import (
	"math"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// What is learned of an endpoint is a line of time over tokens.
func TestSpeeds(t *testing.T) {
	for name, c := range map[string]struct {
		learned [][2]int64 // tokens, ns
		tokens  int64
		want    time.Duration // negative: unknown
	}{
		"nothing":               {nil, 100, -1},
		"too little":            {[][2]int64{{100, 10}, {200, 20}}, 100, -1},
		"a line":                {[][2]int64{{100, 150}, {200, 250}, {300, 350}, {400, 450}, {100, 150}, {200, 250}, {300, 350}, {400, 450}}, 1000, 1050},
		"always as many":        {[][2]int64{{100, 50}, {100, 50}, {100, 50}, {100, 50}, {100, 50}, {100, 50}, {100, 50}, {100, 50}}, 1000, 500},
		"always none":           {[][2]int64{{0, 50}, {0, 50}, {0, 50}, {0, 50}, {0, 50}, {0, 50}, {0, 50}, {0, 50}}, 1000, 50},
		"less for more":         {[][2]int64{{100, 500}, {500, 100}, {100, 500}, {500, 100}, {100, 500}, {500, 100}, {100, 500}, {500, 100}}, 100000, 294},
		"below 0 for no tokens": {[][2]int64{{100, 100}, {200, 400}, {100, 100}, {200, 400}, {100, 100}, {200, 400}, {100, 100}, {200, 400}}, 10, 18},
	} {
		var s speeds
		for _, l := range c.learned {
			s.learn("a", l[0], l[1])
		}
		got, known := s.estimate("a", c.tokens)
		if !known {
			got = -1
		}
		if math.Abs(float64(got-c.want)) > 1 {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	// It follows an endpoint that has become slower, and forgets one that has gone.
	var s speeds
	for i := range int64(200) {
		s.learn("a", 100+i%5, (100+i%5)*(1+9*(i/100)))
	}
	if got, _ := s.estimate("a", 1000); got < 9000 || got > 10500 {
		t.Errorf("ten times slower: %d, want about 10000", got)
	}
	s.retain(&roster.Table{})
	if _, known := s.estimate("a", 1); known || len(s.of) != 0 {
		t.Error("an endpoint that is gone is remembered")
	}
}

// Behind a proxy nobody tells when a prompt has been prefilled. Streamed answers teach how
// long that takes; with others the tokens count no longer than that, nor than until the
// answer begins.
func TestPrefillEndsUnseen(t *testing.T) {
	n, l := newRouter(t, kittest.NATS(t))
	ends := func(by string) float64 { return n.tel.Value("pointsman_router_prefill_releases_total", "by", by) }
	tokens := func() int64 { return n.roster.Snapshot().InFlightTokens(1) }
	begin := func(streams bool) route.Reservation {
		r := worker(n, l, 1, route.WorkPrefill, &route.Profile{}, nil)
		r.(route.Unseen).EndsUnseen(streams)
		return r
	}
	for range learnedFrom { // nothing is known yet
		begin(false).Finish(true, route.NoUsage())
	}
	if ends("answer") != learnedFrom || ends("estimate") != 0 {
		t.Fatalf("%v ended by the answer, %v by an estimate", ends("answer"), ends("estimate"))
	}
	for range learnedFrom {
		r := begin(true)
		time.Sleep(time.Millisecond)
		r.Finish(true, route.NoUsage()) // as at the first token
	}
	begin(true).Finish(false, route.NoUsage())
	if ends("first-token") != learnedFrom || ends("failed") != 1 {
		t.Fatalf("%v ended by the first token, %v failed", ends("first-token"), ends("failed"))
	}

	r := begin(false)
	kittest.Eventually(t, "the prompt to count as prefilled", func() bool { return tokens() == 0 })
	r.Finish(true, route.NoUsage()) // the answer comes later
	if ends("estimate") != 1 || ends("answer") != learnedFrom {
		t.Errorf("%v ended by an estimate, %v by the answer", ends("estimate"), ends("answer"))
	}

	for range 40 { // it has become slow
		l.speeds.learn("b", 400, int64(time.Hour))
	}
	slow := begin(false)
	if tokens() != 400 {
		t.Errorf("%d tokens count, want 400", tokens())
	}
	slow.Finish(true, route.NoUsage())
	if tokens() != 0 || ends("answer") != learnedFrom+1 {
		t.Errorf("%d tokens count when the answer has begun; %v ended by it", tokens(), ends("answer"))
	}

	// Who is told when it is done, and who does not prefill, goes by no estimate.
	worker(n, l, 1, route.WorkPrefill, &route.Profile{}, nil).Finish(true, route.NoUsage())
	decode := worker(n, l, 1, route.WorkDecode, &route.Profile{}, nil)
	decode.(route.Unseen).EndsUnseen(false)
	decode.Finish(true, route.NoUsage())
	ended := begin(false)
	ended.Finish(true, route.NoUsage())
	ended.(route.Unseen).EndsUnseen(false)
	if all := n.tel.Value("pointsman_router_prefill_releases_total"); all != learnedFrom*2+4 {
		t.Errorf("%v were counted", all)
	}
}

// What others have in flight at the endpoint comes before.
func TestEstimateCountsWhatIsAhead(t *testing.T) {
	n, l := newRouter(t, kittest.NATS(t))
	for i := range int64(learnedFrom) {
		l.speeds.learn("b", 400*(1+i%2), int64(time.Hour)*(1+i%2))
	}
	first := worker(n, l, 1, route.WorkPrefill, &route.Profile{}, nil)
	second := worker(n, l, 1, route.WorkPrefill, &route.Profile{}, nil)
	second.(route.Unseen).EndsUnseen(false)
	if u := second.(*reservation).unseen; u.tokens != 800 || u.timer == nil {
		t.Errorf("%+v", u)
	}
	first.Finish(true, route.NoUsage())
	second.Finish(true, route.NoUsage())
}
