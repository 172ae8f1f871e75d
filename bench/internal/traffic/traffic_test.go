package traffic

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// start runs a NATS server and returns where clients and monitors find it.
func start(t *testing.T) (client, monitor string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not listen")
	}
	return s.Addr().String(), s.MonitorAddr().String()
}

func connect(t *testing.T, address string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// A message of 100 bytes that has two subscribers is taken once and given twice.
func TestRead(t *testing.T) {
	client, monitor := start(t)
	for range 2 {
		nc := connect(t, client)
		if _, err := nc.Subscribe("a", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	before, err := Read(context.Background(), monitor)
	if err != nil {
		t.Fatal(err)
	}
	nc := connect(t, client)
	for range 10 {
		if err := nc.Publish("a", make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	want := Server{MessagesIn: 10, MessagesOut: 20, BytesIn: 1000, BytesOut: 2000}
	var got Server
	for began := time.Now(); got != want && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) { // the server counts after it has answered
		after, err := Read(context.Background(), monitor)
		if err != nil {
			t.Fatal(err)
		}
		got = after.Minus(before)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadFails(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"404":      http.NotFound,
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<p>")) },
	} {
		s := httptest.NewServer(h)
		if _, err := Read(context.Background(), s.Listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "/varz") {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
}

func TestBySubject(t *testing.T) {
	client, _ := start(t)
	stop := make(chan struct{})
	ended := make(chan struct{})
	nc := connect(t, client)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for subject, n := range map[string]int{"pointsman.v1.a.load": 50, "pointsman.v1.b.load": 150, "pointsman.v1.a.outcome": 10, "pointsman.v1.a.get.state": 7, "other": 9} {
				_ = nc.Publish(subject, make([]byte, n))
			}
			_ = nc.Flush()
		}
	}()
	var flows map[string]Flow
	var err error
	for began := time.Now(); err == nil && len(flows) < 2 && time.Since(began) < time.Minute; { // on a busy machine nothing may come for a while
		flows, err = BySubject(context.Background(), client, 100*time.Millisecond)
	}
	close(stop)
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	if len(flows) != 2 {
		t.Errorf("%v: want loads and outcomes alone", flows)
	}
	load, outcome := flows["load"], flows["outcome"]
	if load.Bytes < 50*load.Messages || load.Bytes > 150*load.Messages {
		t.Errorf("loads: %+v", load)
	}
	if got := outcome.Bytes / outcome.Messages; math.Abs(got-10) > 1e-6 {
		t.Errorf("an outcome has %v bytes, want 10", got)
	}
}

func TestBySubjectEnds(t *testing.T) {
	client, _ := start(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := BySubject(ctx, client, time.Hour); err == nil {
		t.Error("no error when it was ended early")
	}
	if _, err := BySubject(context.Background(), "127.0.0.1:1", time.Millisecond); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody there: %v", err)
	}
}
