package load

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/bench/internal/chat"
	"github.com/pointsman/pointsman/bench/internal/floor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// naming is the floor that names a destination and changes what it is told to.
type naming struct {
	floor.Server
	destination string
	spoil       func(m *extprocv3.ProcessingResponse)
}

type spoiled struct {
	grpc.ServerStream
	n naming
}

func (s spoiled) SendMsg(v any) error {
	m, ok := v.(*extprocv3.ProcessingResponse)
	if ok {
		if h := m.GetRequestHeaders(); h != nil && s.n.destination != "" {
			h.Response = &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: destinationHeader, RawValue: []byte(s.n.destination)}},
			}}}
		}
		if s.n.spoil != nil {
			s.n.spoil(m)
		}
	}
	return s.ServerStream.SendMsg(v)
}

// serve runs a picker and returns its address.
func serve(t *testing.T, n naming) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return h(srv, spoiled{stream, n})
	}))
	n.Register(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-served })
	return l.Addr().String()
}

// Every way in which an answer can be wrong is found.
func TestPickersAreChecked(t *testing.T) {
	for _, tc := range []struct {
		name        string
		destination string
		spoil       func(m *extprocv3.ProcessingResponse)
		want        string // empty: all is well
	}{
		{name: "well", destination: "127.0.0.1:1"},
		{name: "fallbacks after it", destination: "127.0.0.1:1,127.0.0.1:2"},
		{name: "no destination", want: "no destination"},
		{name: "a stranger", destination: "127.0.0.1:9", want: "is no endpoint"},
		{name: "another byte", destination: "127.0.0.1:1", want: "did not come back", spoil: func(m *extprocv3.ProcessingResponse) {
			if b := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); b != nil {
				b.Body[7] ^= 1
			}
		}},
		{name: "no end", destination: "127.0.0.1:1", want: "end of stream", spoil: func(m *extprocv3.ProcessingResponse) {
			if b := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); b != nil {
				b.EndOfStream = false
			}
		}},
		{name: "the answer is changed", destination: "127.0.0.1:1", want: "answer did not come through", spoil: func(m *extprocv3.ProcessingResponse) {
			if b := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); b != nil {
				b.Body[7] ^= 1
			}
		}},
		{name: "refused", destination: "127.0.0.1:1", want: "wanted request headers", spoil: func(m *extprocv3.ProcessingResponse) {
			if m.GetRequestHeaders() != nil {
				m.Response = &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{}}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := NewPicker(PickerConfig{
				Address: serve(t, naming{destination: tc.destination, spoil: tc.spoil}), Bodies: chat.Bodies(3, 40<<10), Endpoints: []string{"127.0.0.1:1"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			after, err := p.Exchange(ctx, 1)
			if err == nil {
				err = after()
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestClosedLoop(t *testing.T) {
	var under, most, asked atomic.Int64
	r, err := Start(t.Context(), Config{Concurrency: 5, Exchange: func(context.Context, int) (func() error, error) {
		n := under.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		under.Add(-1)
		asked.Add(1)
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin()
	begun := asked.Load()
	await(t, &asked, begun+20)
	got := r.End()
	r.Stop()
	if got.Completed == 0 || got.Completed != len(got.Latencies) || got.Failed != 0 || len(got.Lateness) != 0 {
		t.Errorf("%d completed, %d latencies, %d failed", got.Completed, len(got.Latencies), got.Failed)
	}
	if n := most.Load(); n > 5 {
		t.Errorf("%d were under way at once, want 5 at most", n)
	}
}

// await waits until more than n requests were asked.
func await(t *testing.T, asked *atomic.Int64, n int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); asked.Load() <= n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute in vain until %d requests were made: there are %d", n, asked.Load())
		}
	}
}

// A target that stalls is seen to: what waits for it counts from when it should have begun.
func TestOpenLoopCountsFromTheIntendedStart(t *testing.T) {
	var asked atomic.Int64
	begun := make(chan struct{})
	r, err := Start(t.Context(), Config{Concurrency: 1, Rate: 2000, Seed: 1, Exchange: func(context.Context, int) (func() error, error) {
		if asked.Add(1) == 1 {
			<-begun
			time.Sleep(100 * time.Millisecond)
		}
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin()
	close(begun)
	await(t, &asked, 300)
	got := r.End()
	r.Stop()
	delayed := 0
	for _, d := range got.Latencies {
		if d > 20*time.Millisecond {
			delayed++
		}
	}
	if delayed < 10 {
		t.Errorf("%d of %d requests were delayed by a stall of 100 ms at 2,000 requests/s", delayed, got.Completed)
	}
}

func TestFailuresAreCountedAndNotTimed(t *testing.T) {
	var asked atomic.Int64
	r, err := Start(t.Context(), Config{Concurrency: 2, Exchange: func(_ context.Context, n int) (func() error, error) {
		time.Sleep(time.Millisecond)
		asked.Add(1)
		if n%2 == 0 {
			return nil, errors.New("broken")
		}
		return func() error { return errors.New("broken later") }, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin()
	begun := asked.Load()
	await(t, &asked, begun+20)
	got := r.End()
	r.Stop()
	if got.Completed != 0 || got.Failed == 0 || got.Errors["broken"]+got.Errors["broken later"] != got.Failed {
		t.Errorf("%d completed, %d failed: %v", got.Completed, got.Failed, got.Errors)
	}
}

func TestHTTPAnswersAreChecked(t *testing.T) {
	for _, tc := range []struct {
		name, endpoint, body string
		status               int
		want                 string
	}{
		{"well", "a", answerBody, 200, ""},
		{"status", "a", "no", 503, "status 503"},
		{"stranger", "b", answerBody, 200, "no endpoint"},
		{"body", "a", answerBody + " ", 200, "did not come through"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(endpointHeader, tc.endpoint)
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer s.Close()
			c := NewClient(s.URL, 1, chat.Bodies(1, 512), []string{"a"})
			defer c.Close()
			_, err := c.Exchange(t.Context(), 0)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	var asked [3]int
	var all []Exchange
	for i := range asked {
		all = append(all, func(_ context.Context, n int) (func() error, error) {
			asked[i] += n
			return nil, nil
		})
	}
	for n := range 6 {
		if _, err := Spread(all)(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	if asked != [3]int{0 + 3, 1 + 4, 2 + 5} {
		t.Errorf("the sums of the requests' numbers are %v", asked)
	}
}

func TestQuantile(t *testing.T) {
	if Quantile(nil, 0.5) != 0 || Quantile([]time.Duration{1, 2, 3, 4}, 0.5) != 3 || Quantile([]time.Duration{1, 2, 3, 4}, 1) != 4 {
		t.Error("quantiles of small samples are wrong")
	}
}

func TestConfigIsChecked(t *testing.T) {
	exchange := func(context.Context, int) (func() error, error) { return nil, nil }
	for _, bad := range []Config{{}, {Exchange: exchange, Rate: -1}, {Exchange: exchange, Concurrency: -1}} {
		if _, err := Start(t.Context(), bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if _, err := NewPicker(PickerConfig{Address: "127.0.0.1:1"}); err == nil {
		t.Error("a picker without bodies was taken")
	}
}
