package bus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestMessagesArriveInOrderWithTheirStamps(t *testing.T) {
	url := kittest.NATS(t)
	a := newProcess(t, url, "p", "a").start(t)
	b := newProcess(t, url, "p", "b")
	got := heartbeats(b)
	b.start(t)

	out := heartbeatPublisher(a)
	for i := range uint32(100) {
		if err := out.Publish(&statev1.CollectorHeartbeat{ScrapedEndpointCount: i}); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "all messages arrive", func() bool { return got.len() == 100 })
	messages, metas := got.all()
	for i, m := range messages {
		want := fmt.Sprintf("message %d: publisher a, sequence %d, first %t, gap 0", i, i+1, i == 0)
		have := fmt.Sprintf("message %d: publisher %s, sequence %d, first %t, gap %d",
			m.GetScrapedEndpointCount(), m.GetStamp().GetPublisherId(), m.GetStamp().GetSequence(), metas[i].First, metas[i].Gap)
		if have != want {
			t.Fatalf("got %s, want %s", have, want)
		}
		if !m.GetStamp().GetPublishTime().IsValid() || m.GetStamp().GetPublishTime().GetSeconds() == 0 {
			t.Fatalf("publish time = %v", m.GetStamp().GetPublishTime())
		}
	}
	if out.Sequence() != 100 {
		t.Errorf("Sequence = %d, want 100", out.Sequence())
	}
	checkValues(t, a, "pointsman_bus_published_total{subject=collector}", 100)
	checkValues(t, b, "pointsman_bus_received_total{subject=collector}", 100)
	checkValues(t, b, "pointsman_bus_gaps_total{subject=collector}", 0)
	checkValues(t, b, "pointsman_bus_connected{}", 1)
}

func TestOwnMessagesAreDeliveredToo(t *testing.T) {
	a := newProcess(t, kittest.NATS(t), "p", "a")
	got := heartbeats(a)
	a.start(t)
	if err := heartbeatPublisher(a).Publish(&statev1.CollectorHeartbeat{}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the message comes back", func() bool { return got.len() == 1 })
}

func TestPublishersOfOneSubjectShareASequence(t *testing.T) {
	a := newProcess(t, kittest.NATS(t), "p", "a")
	got := heartbeats(a)
	a.start(t)
	one, two := heartbeatPublisher(a), heartbeatPublisher(a)
	for _, p := range []*Publisher[*statev1.CollectorHeartbeat]{one, two, one} {
		if err := p.Publish(&statev1.CollectorHeartbeat{}); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "all arrive", func() bool { return got.len() == 3 })
	checkValues(t, a, "pointsman_bus_gaps_total{subject=collector}", 0)
	checkValues(t, a, "pointsman_bus_errors_total{}", 0)
}

func TestPublishingOfflineFailsAtOnceAndShowsAsAGap(t *testing.T) {
	server := kittest.StartNATS(t, 0)
	a, b := newProcess(t, server.URL, "p", "a"), newProcess(t, server.URL, "p", "b")
	resets := make(chan struct{}, 10)
	got := heartbeats(b)
	b.OnReset(func() { resets <- struct{}{} })
	out := heartbeatPublisher(a)
	if err := out.Publish(&statev1.CollectorHeartbeat{}); !errors.Is(err, ErrOffline) {
		t.Fatalf("before the start: %v, want ErrOffline", err)
	}
	a.start(t)
	b.start(t)
	publish(t, out, 2)
	kittest.Eventually(t, "sequence 2 arrives", func() bool { return got.len() == 1 })

	server.Stop()
	for _, p := range []*process{a, b} {
		kittest.Eventually(t, "the loss is noticed", func() bool { return !p.Connected() })
		if why := p.unready(); why != "" {
			t.Errorf("without NATS, after the start, the process is not ready: %s", why)
		}
	}
	for range 3 {
		if err := out.Publish(&statev1.CollectorHeartbeat{}); !errors.Is(err, ErrOffline) {
			t.Fatalf("while NATS is away: %v, want ErrOffline", err)
		}
	}
	checkValues(t, a, "pointsman_bus_errors_total{subject=collector,kind=offline}", 4)
	kittest.Eventually(t, "the gauge is 0", func() bool { return a.tel.Value("pointsman_bus_connected") == 0 })

	server.Restart()
	for _, p := range []*process{a, b} {
		kittest.Eventually(t, "the connection is back", p.Connected)
	}
	publish(t, out, 6)
	kittest.Eventually(t, "sequence 6 arrives, and nothing older", func() bool { return got.len() == 2 })
	messages, metas := got.all()
	if s := messages[1].GetStamp().GetSequence(); s != 6 {
		t.Errorf("sequence = %d, want 6: the others must not be sent late", s)
	}
	if diff := cmp.Diff([]uint64{0, 3}, []uint64{metas[0].Gap, metas[1].Gap}); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	checkValues(t, b, "pointsman_bus_gaps_total{subject=collector}", 1)
	checkValues(t, b, "pointsman_bus_lost_total{subject=collector}", 3)
	kittest.Eventually(t, "OnReset is called for the reconnection", func() bool { return len(resets) == 1 })
}

func TestNATSAwayAtTheStartIsWaitedForVisibly(t *testing.T) {
	port := kittest.FreePort(t)
	url := fmt.Sprintf("nats://user:secret@127.0.0.1:%d", port)
	a := newProcess(t, url, "p", "a", func(c *Config) { c.User, c.Password = "", "" })
	ready, _ := a.run(t)

	where := fmt.Sprintf("nats://127.0.0.1:%d", port)
	kittest.Eventually(t, "a log line names the URL", func() bool { return a.log.count(where) > 0 })
	time.Sleep(500 * time.Millisecond) // several attempts more
	if got := a.log.count("level=WARN"); got != 1 {
		t.Errorf("%d warnings, want 1 for all attempts:\n%s", got, a.log)
	}
	for _, want := range []string{"connection refused", "start a NATS server there, or set nats.url"} {
		if a.log.count(want) != 1 {
			t.Errorf("the log does not say %q:\n%s", want, a.log)
		}
	}
	if a.log.count("secret") != 0 {
		t.Errorf("the log holds the password:\n%s", a.log)
	}
	if why := a.unready(); !strings.Contains(why, where) || strings.Contains(why, "secret") {
		t.Errorf("unready because %q, want the URL %s without the password", why, where)
	}
	select {
	case <-ready:
		t.Fatal("ready without NATS")
	default:
	}

	kittest.StartNATS(t, port)
	await(t, "the bus is ready", ready)
	if why := a.unready(); why != "" {
		t.Errorf("connected, but not ready: %s", why)
	}
	if a.log.count("connected to NATS") != 1 {
		t.Errorf("the log does not tell of the connection:\n%s", a.log)
	}
}

func TestForeignBytesAreCountedAndDropped(t *testing.T) {
	url := kittest.NATS(t)
	a := newProcess(t, url, "p", "a")
	got := heartbeats(a)
	a.start(t)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, data := range []string{
		"\xff\xff\xff",                      // not protobuf
		"",                                  // no stamp
		"\x0a\x03\x0a\x01x",                 // no sequence
		"\x0a\x02\x10\x07",                  // no publisher
		"\x0a\x05\x0a\x01x\x10\x05",         // good
		"\x0a\x05\x0a\x01x\x10\x05",         // repeated
		"\x0a\x05\x0a\x01x\x10\x04",         // overtaken
		"\x0a\x05\x0a\x01x\x10\x06",         // good
		"\x0a\x05\x0a\x01x\x10\x07\x7a\x00", // good, with an unknown field
	} {
		if err := nc.Publish("pointsman.v1.p.collector", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "the good ones arrive", func() bool { return got.len() == 3 })
	checkValues(t, a, "pointsman_bus_errors_total{subject=collector,kind=decode}", 1)
	checkValues(t, a, "pointsman_bus_errors_total{subject=collector,kind=stamp}", 3)
	checkValues(t, a, "pointsman_bus_errors_total{subject=collector,kind=late}", 2)
	checkValues(t, a, "pointsman_bus_gaps_total{}", 0)
}

func TestSubscribingToARunningBusIsAMistake(t *testing.T) {
	a := newProcess(t, kittest.NATS(t), "p", "a").start(t)
	defer func() {
		if recover() == nil {
			t.Error("Subscribe did not panic, but its messages would never come")
		}
	}()
	heartbeats(a)
}

func TestAPartRunsOnce(t *testing.T) {
	a := newProcess(t, kittest.NATS(t), "p", "a").start(t)
	if err := a.Part()(t.Context(), func() {}); err == nil {
		t.Error("a second run gives no error")
	}
}

func TestWhatWasPublishedBeforeTheStopIsSent(t *testing.T) {
	url := kittest.NATS(t)
	b := newProcess(t, url, "p", "b")
	got := heartbeats(b)
	b.start(t)
	a := newProcess(t, url, "p", "a")
	ready, stop := a.run(t)
	await(t, "a is ready", ready)
	publish(t, heartbeatPublisher(a), 1)
	stop()
	kittest.Eventually(t, "the last message arrives", func() bool { return got.len() == 1 })
	if a.Connected() {
		t.Error("connected after the stop")
	}
}

func publish(t *testing.T, p *Publisher[*statev1.CollectorHeartbeat], sequence uint64) {
	t.Helper()
	if err := p.Publish(&statev1.CollectorHeartbeat{}); err != nil {
		t.Fatal(err)
	}
	if got := p.Sequence(); got != sequence {
		t.Fatalf("Sequence = %d, want %d", got, sequence)
	}
}

// checkValues compares a metric, named as in "name{label=value,label=value}".
func checkValues(t *testing.T, p *process, series string, want float64) {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	var pairs []string
	for _, pair := range strings.FieldsFunc(labels, func(r rune) bool { return r == ',' }) {
		label, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, label, value)
	}
	if got := p.tel.Value(name, pairs...); got != want {
		t.Errorf("%s = %v, want %v", series, got, want)
	}
}
