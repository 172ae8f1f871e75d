package remote

import (
	"context"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// keeper keeps the call that it is asked and never answers.
type keeper struct{ call *fanout.Call }

func (*keeper) Timeout() time.Duration                         { return time.Millisecond }
func (k *keeper) Start(c *fanout.Call)                         { c.Hold(); k.call = c }
func (*keeper) End(*fanout.Call, *route.Scores, fanout.Ending) {}

// A call that moves to another replica as its probe, just as the request gives it up:
// the request tells the breaker of the replica that the call has left.
func TestAProbeThatIsGivenUpWhileItMovesEnds(t *testing.T) {
	fan, err := fanout.New(fanout.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{}
	fan.Score(context.Background(), &route.Cycle{Request: &route.Request{Headers: route.NoHeaders{}}, Snapshot: &roster.Snapshot{Table: table}},
		[]route.Scorer{{Asked: k}}, []int32{0}, make([]route.Scores, 1))
	if k.call.Waiting() {
		t.Fatal("the call is still waited for")
	}
	for name, end := range map[string]func(*flight, *session){
		"answer": func(f *flight, s *session) { f.answered(s, &scorerv1.ScoreResponse{Scores: []float32{1}}) },
		"error":  func(f *flight, s *session) { f.faulted(s, fault{}) },
	} {
		s := &session{replica: &replica{breaker: newBreaker(defaultBreaker())}}
		b := s.replica.breaker
		b.open(time.Now().Add(-time.Hour))
		f := newFlight(k.call)
		f.begin(nil, 7)
		if !b.admit(f.id, time.Now()) || b.current() != halfOpen {
			t.Fatalf("%s: the call is no probe", name)
		}
		k.call.Hold()
		end(f, s)
		if b.current() != open || !b.admit(8, time.Now()) {
			t.Errorf("%s: the breaker is %v and waits for a probe that has ended", name, b.current())
		}
	}
	k.call.Release()
}
