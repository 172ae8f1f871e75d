package kittest_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestNATSDeliversAcrossARestart(t *testing.T) {
	h := kittest.StartNATS(t, 0)
	roundTrip(t, h.URL)
	h.Stop()
	if _, err := nats.Connect(h.URL, nats.Timeout(time.Second)); err == nil {
		t.Error("a stopped server accepts connections")
	}
	if got := h.Clients(); got != 0 {
		t.Errorf("a stopped server has %d clients", got)
	}
	h.Restart()
	roundTrip(t, h.URL)
}

func TestNATSOnAFixedPort(t *testing.T) {
	port := kittest.FreePort(t)
	h := kittest.StartNATS(t, port)
	if want := fmt.Sprintf("nats://127.0.0.1:%d", port); h.URL != want {
		t.Errorf("URL = %q, want %q", h.URL, want)
	}
	roundTrip(t, h.URL)
}

func TestNATSTakesTweaks(t *testing.T) {
	h := kittest.StartNATS(t, 0, func(o *server.Options) { o.MaxPayload = 100 })
	nc, err := nats.Connect(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := nc.MaxPayload(); got != 100 {
		t.Errorf("MaxPayload = %d, want 100", got)
	}
}

func TestServersOfOneTestAreStrangers(t *testing.T) {
	if a, b := kittest.NATS(t), kittest.NATS(t); a == b {
		t.Errorf("both servers are at %s", a)
	}
}

func TestEventuallyWaits(t *testing.T) {
	calls := 0
	kittest.Eventually(t, "the third call", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("f was called %d times, want 3", calls)
	}
}

func TestFreePortIsFree(t *testing.T) {
	for range 2 { // and stays so
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// A port is given out once, and again when the test that has it has ended.
func TestFreePortsAreStrangers(t *testing.T) {
	given := make(map[int]bool)
	t.Run("a test", func(t *testing.T) {
		for range 500 {
			port := kittest.FreePort(t)
			if given[port] {
				t.Fatalf("port %d was given out twice", port)
			}
			given[port] = true
			if _, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				t.Fatalf("another process could be given port %d", port)
			}
		}
	})
	kept := 0
	for port := range given {
		claim, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			kept++
			continue
		}
		_ = claim.Close()
	}
	if kept > 50 { // a few may be others' by now
		t.Errorf("%d of %d ports are kept although the test has ended", kept, len(given))
	}
}

func roundTrip(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("greeting")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("greeting", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil || string(m.Data) != "hello" {
		t.Fatalf("NextMsg = %v, %v, want hello", m, err)
	}
}
