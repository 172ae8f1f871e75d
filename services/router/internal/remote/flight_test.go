package remote

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

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

// pair returns a flight with a call that is still waited for or not, and the sessions of two
// streams without peers: the one that the flight is with, and another that it may move to.
func pair(t *testing.T, waited bool) (f *flight, here, other *session) {
	t.Helper()
	fan, err := fanout.New(fanout.Config{Timeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(context.Background())
	started, done := make(chan *fanout.Call, 1), make(chan struct{})
	go func() {
		defer close(done)
		fan.Score(ctx, &route.Cycle{Request: &route.Request{Headers: route.NoHeaders{}}, Snapshot: &roster.Snapshot{Table: table}},
			[]route.Scorer{{Asked: starter(started)}}, []int32{0}, make([]route.Scores, 1))
	}()
	call := <-started
	t.Cleanup(func() {
		giveUp()
		<-done
		call.Release()
	})
	if !waited {
		giveUp()
		<-done
	}
	svc := &service{}
	in := newInstance(svc, "p", "t", nil)
	session := func() *session {
		s := &session{replica: &replica{service: svc, breaker: newBreaker(defaultBreaker())}, info: &info{}}
		s.line = &stream{session: s, calls: make(map[uint64]*flight), wake: make(chan struct{}, 1)}
		s.ready.Store(true)
		in.bind(binding{session: s, needs: &needs{}})
		return s
	}
	here, other = session(), session()
	f = newFlight(call)
	f.begin(in, 1)
	svc.ids.Store(1)
	f.binding, _ = bindingOn(in, here)
	f.session.Store(here)
	call.Hold() // the flight's
	here.replica.open.Store(1)
	return f, here, other
}

func bindingOn(in *Instance, s *session) (*binding, bool) {
	b, ok := in.on(s)
	return &b, ok
}

// starter hands the call that it is asked on and never answers.
type starter chan *fanout.Call

func (starter) Timeout() time.Duration                         { return 0 }
func (s starter) Start(c *fanout.Call)                         { c.Hold(); s <- c }
func (starter) End(*fanout.Call, *route.Scores, fanout.Ending) {}

// A request that gives a call up just as it moves finds it at neither replica: the call must
// not wait at the other one for an answer that may never come.
func TestACallThatIsGivenUpWhileItMovesLands(t *testing.T) {
	f, here, other := pair(t, false)
	here.replica.open.Store(0) // as it is once the flight has left
	f.move(here)
	to := other.line.(*stream)
	if n := other.replica.open.Load(); n != 0 || len(to.calls) != 0 || len(to.queue) != 0 {
		t.Errorf("%d calls are open, %d wait for an answer, %d to be sent", n, len(to.calls), len(to.queue))
	}
}

// A replica that refuses a call before it can have read it: the call goes elsewhere when it
// has been written, for until then its request is being read.
func TestACallIsNotChangedWhileItIsWritten(t *testing.T) {
	f, here, other := pair(t, true)
	from, to := here.line.(*stream), other.line.(*stream)
	if err := from.submit(f); err != nil {
		t.Fatal(err)
	}
	from.take(&from.out)
	from.receive([]*scorerv1.StreamAnswer{{CallId: f.id, Result: &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: int32(codes.Unavailable)}}}})
	if f.session.Load() != here || len(to.calls) != 0 {
		t.Fatal("it was sent elsewhere while it was written")
	}
	early := from.written(from.out.batch)
	if len(early) != 1 || early[0].flight != f {
		t.Fatalf("refused meanwhile: %v", early)
	}
	f.faulted(here, early[0].why)
	f.call.Release() // the writer's
	if f.session.Load() != other || to.calls[f.id] != f || here.replica.open.Load() != 0 || other.replica.open.Load() != 1 {
		t.Error("it was not sent elsewhere afterwards")
	}
	to.abandon(f)
}
