package bus

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

const (
	patience = 20 * time.Second
	quiet    = 200 * time.Millisecond
)

func newStateQuestion() *statev1.GetStateRequest { return &statev1.GetStateRequest{} }

func newState() *statev1.GetStateResponse { return &statev1.GetStateResponse{} }

func stateOf(host string) *statev1.GetStateResponse {
	return &statev1.GetStateResponse{Table: &statev1.EndpointTable{Endpoints: []*statev1.Endpoint{{Host: host}}}}
}

// collector answers GetState with its name; "" stays silent.
func collector(t *testing.T, url, name string) *process {
	t.Helper()
	p := newProcess(t, url, "p", "collector-"+name)
	Respond(p.Bus, GetState, newStateQuestion, func(*statev1.GetStateRequest) *statev1.GetStateResponse {
		if name == "" {
			return nil
		}
		return stateOf(name)
	})
	return p.start(t)
}

func hosts(answers []*statev1.GetStateResponse) []string {
	var hs []string
	for _, a := range answers {
		hs = append(hs, a.GetTable().GetEndpoints()[0].GetHost())
	}
	slices.Sort(hs)
	return hs
}

func TestRequestTakesTheFirstAnswer(t *testing.T) {
	url := kittest.NATS(t)
	one := collector(t, url, "one")
	collector(t, url, "")
	asker := newProcess(t, url, "p", "asker").start(t)
	a, err := Request(within(t, patience), asker.Bus, GetState, newStateQuestion(), newState)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one"}, hosts([]*statev1.GetStateResponse{a})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	checkValues(t, one, "pointsman_bus_received_total{subject=get.state}", 1)
	checkValues(t, one, "pointsman_bus_published_total{subject=get.state}", 1)
}

func TestRequestManyTakesAllAnswers(t *testing.T) {
	url := kittest.NATS(t)
	for _, name := range []string{"one", "two", "three", ""} {
		collector(t, url, name)
	}
	asker := newProcess(t, url, "p", "asker").start(t)
	as, err := RequestMany(within(t, patience), asker.Bus, GetState, newStateQuestion(), newState, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "three", "two"}, hosts(as)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestRequestManyReturnsWhatItHasWhenTimeIsUp(t *testing.T) {
	url := kittest.NATS(t)
	collector(t, url, "one")
	asker := newProcess(t, url, "p", "asker").start(t)
	as, err := RequestMany(within(t, 2*time.Second), asker.Bus, GetState, newStateQuestion(), newState, time.Hour)
	if err != nil || len(as) != 1 {
		t.Errorf("RequestMany = %v, %v, want the one answer", as, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	url := kittest.NATS(t)
	asker := newProcess(t, url, "p", "asker").start(t)
	if _, err := Request(within(t, patience), asker.Bus, GetState, newStateQuestion(), newState); !errors.Is(err, ErrNoResponders) {
		t.Errorf("Request = %v, want ErrNoResponders", err)
	}
	as, err := RequestMany(within(t, patience), asker.Bus, GetState, newStateQuestion(), newState, quiet)
	if len(as) != 0 || err != nil {
		t.Errorf("RequestMany = %v, %v, want nothing", as, err)
	}
}

func TestEverybodyStaysSilent(t *testing.T) {
	url := kittest.NATS(t)
	collector(t, url, "")
	asker := newProcess(t, url, "p", "asker").start(t)
	if _, err := Request(within(t, quiet), asker.Bus, GetState, newStateQuestion(), newState); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Request = %v, want that time is up", err)
	}
	as, err := RequestMany(within(t, quiet), asker.Bus, GetState, newStateQuestion(), newState, time.Millisecond)
	if len(as) != 0 || err != nil {
		t.Errorf("RequestMany = %v, %v, want nothing", as, err)
	}
}

func TestAskingIsCancelled(t *testing.T) {
	url := kittest.NATS(t)
	collector(t, url, "")
	asker := newProcess(t, url, "p", "asker").start(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := RequestMany(ctx, asker.Bus, GetState, newStateQuestion(), newState, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("RequestMany = %v, want the context's error", err)
	}
}

func TestAskingOffline(t *testing.T) {
	asker := newProcess(t, "nats://127.0.0.1:1", "p", "asker")
	if _, err := Request(t.Context(), asker.Bus, GetState, newStateQuestion(), newState); !errors.Is(err, ErrOffline) {
		t.Errorf("Request = %v, want ErrOffline", err)
	}
	if _, err := RequestMany(t.Context(), asker.Bus, GetState, newStateQuestion(), newState, quiet); !errors.Is(err, ErrOffline) {
		t.Errorf("RequestMany = %v, want ErrOffline", err)
	}
	checkValues(t, asker, "pointsman_bus_errors_total{subject=get.state,kind=offline}", 2)
}

func TestForeignQuestionsAndAnswers(t *testing.T) {
	url := kittest.NATS(t)
	one := collector(t, url, "one")
	asker := newProcess(t, url, "p", "asker").start(t)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.PublishRequest("pointsman.v1.p.get.state", "reply", []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the question is counted", func() bool {
		return one.tel.Value("pointsman_bus_errors_total", "subject", "get.state", "kind", "decode") == 1
	})
	if err := nc.Publish("pointsman.v1.p.get.state", nil); err != nil { // no way to answer
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("pointsman.v1.p.get.picks", func(m *nats.Msg) { m.Respond([]byte("\xff")) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	newPicks := func() *statev1.GetPicksResponse { return &statev1.GetPicksResponse{} }
	if _, err := Request(within(t, patience), asker.Bus, GetPicks, &statev1.GetPicksRequest{}, newPicks); err == nil {
		t.Error("an answer that cannot be decoded gives no error")
	}
	as, err := RequestMany(within(t, quiet), asker.Bus, GetPicks, &statev1.GetPicksRequest{}, newPicks, quiet)
	if err != nil || len(as) != 0 {
		t.Errorf("RequestMany = %v, %v, want nothing", as, err)
	}
	checkValues(t, asker, "pointsman_bus_errors_total{subject=get.picks,kind=decode}", 2)
	checkValues(t, one, "pointsman_bus_published_total{subject=get.state}", 0)
}
