package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a service whose stream stays open until the client closes it or leave is closed.
type echo struct {
	testv1.UnimplementedTestServiceServer
	leave chan struct{}
}

func (e *echo) EmptyCall(context.Context, *testv1.Empty) (*testv1.Empty, error) {
	return &testv1.Empty{}, nil
}

func (e *echo) UnaryCall(_ context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
	if req.GetPayload() == nil {
		panic("no payload")
	}
	return &testv1.SimpleResponse{Payload: req.GetPayload()}, nil
}

func (e *echo) FullDuplexCall(stream testv1.TestService_FullDuplexCallServer) error {
	if err := stream.Send(&testv1.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-e.leave:
		return nil
	}
}

func (e *echo) StreamingInputCall(testv1.TestService_StreamingInputCallServer) error {
	panic(errors.New("no such input"))
}

// running is a server whose part runs.
type running struct {
	*rpc.Server
	addr string // as announced
	stop func() // begins the stop and waits for its end; further calls do nothing
}

// start runs a server with the echo service until stop or the end of the test.
func start(t *testing.T, cfg rpc.ServerConfig, tel *telemetry.Telemetry, e *echo) *running {
	t.Helper()
	s, err := rpc.NewServer("grpc", cfg, tel)
	if err != nil {
		t.Fatal(err)
	}
	testv1.RegisterTestServiceServer(s, e)
	r := &running{Server: s}
	ctx, cancel := context.WithCancel(run.WithAnnounce(context.Background(), func(_, listener, addr string) {
		if listener != "grpc" {
			t.Errorf("announced as %s, want grpc", listener)
		}
		r.addr = addr
	}))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Part(nil)(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		t.Fatalf("Part = %v before it was ready", err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Part = %v, want nil after a stop", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func plain() rpc.ServerConfig { return rpc.DefaultServerConfig("127.0.0.1:0") }

// dial returns a connection for the length of the test.
func dial(t *testing.T, target string, cfg rpc.ClientConfig) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func call(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := testv1.NewTestServiceClient(conn).EmptyCall(ctx, &testv1.Empty{})
	return err
}

func openStream(t *testing.T, conn *grpc.ClientConn) testv1.TestService_FullDuplexCallClient {
	t.Helper()
	stream, err := testv1.NewTestServiceClient(conn).FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestTransports(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "rpc.sock")
	for _, address := range []string{"127.0.0.1:0", socket} {
		t.Run(address, func(t *testing.T) {
			var out bytes.Buffer
			s, err := rpc.NewServer("grpc", rpc.DefaultServerConfig(address), telemetry.Discard())
			if err != nil {
				t.Fatal(err)
			}
			testv1.RegisterTestServiceServer(s, &echo{})
			g := run.NewGroup(nil)
			g.Add("rpc", s.Part(&out))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var addr string
			ctx = run.WithAnnounce(ctx, func(_, _, a string) { addr = a })
			g.OnReady = func() {
				defer cancel()
				if err := call(t, dial(t, addr, rpc.DefaultClientConfig())); err != nil {
					t.Errorf("call over %s: %v", addr, err)
				}
			}
			if err := g.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if want := "test: grpc listening on " + addr + "\n"; out.String() != want {
				t.Errorf("stdout = %q, want %q", out.String(), want)
			}
			if address == socket && addr != socket {
				t.Errorf("announced %s, want %s", addr, socket)
			}
		})
	}
}

func TestOccupiedPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	s, err := rpc.NewServer("grpc", rpc.DefaultServerConfig(address), telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	err = s.Part(nil)(t.Context(), func() { t.Error("ready was called") })
	want := "listen.grpc.address: listen on " + address +
		": address already in use; choose another with --set listen.grpc.address=HOST:PORT or stop the process that holds it"
	if err == nil || err.Error() != want {
		t.Errorf("Part = %v, want %s", err, want)
	}
}

func TestPanicsFailTheirCallOnly(t *testing.T) {
	tel := telemetry.Discard()
	var log bytes.Buffer
	tel.Log = slog.New(slog.NewTextHandler(&log, nil))
	conn := dial(t, start(t, plain(), tel, &echo{}).addr, rpc.DefaultClientConfig())
	client := testv1.NewTestServiceClient(conn)

	_, err := client.UnaryCall(t.Context(), &testv1.SimpleRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "no payload") {
		t.Errorf("UnaryCall = %v, want INTERNAL, without the inside of the server", err)
	}
	stream, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Internal {
		t.Errorf("StreamingInputCall = %v, want INTERNAL", err)
	}
	if err := call(t, conn); err != nil {
		t.Errorf("the next call: %v, want none of it", err)
	}
	for _, method := range []string{"UnaryCall", "StreamingInputCall"} {
		if got := tel.Value("pointsman_rpc_panics_total", "method", "/grpc.testing.TestService/"+method); got != 1 {
			t.Errorf("panics counted for %s = %v, want 1", method, got)
		}
	}
	for _, want := range []string{"a value of type string", "server_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	for _, secret := range []string{"no payload", "no such input"} {
		if strings.Contains(log.String(), "panic=\""+secret) {
			t.Errorf("the log holds the panic's value, which could be a prompt: %q", secret)
		}
	}
}

func TestMessageSize(t *testing.T) {
	cfg := plain()
	cfg.MaxMessageBytes = 64 << 10
	client := testv1.NewTestServiceClient(dial(t, start(t, cfg, telemetry.Discard(), &echo{}).addr, rpc.DefaultClientConfig()))
	for _, tt := range []struct {
		bytes int
		code  codes.Code
	}{{60 << 10, codes.OK}, {65 << 10, codes.ResourceExhausted}} {
		_, err := client.UnaryCall(t.Context(), &testv1.SimpleRequest{Payload: &testv1.Payload{Body: make([]byte, tt.bytes)}})
		if status.Code(err) != tt.code {
			t.Errorf("a message of %d bytes: %v, want %s", tt.bytes, err, tt.code)
		}
	}
}

func TestStopLetsOpenStreamsFinish(t *testing.T) {
	e := &echo{leave: make(chan struct{})}
	r := start(t, plain(), telemetry.Discard(), e)
	r.OnDrain(func() { close(e.leave) })
	stream := openStream(t, dial(t, r.addr, rpc.DefaultClientConfig()))
	r.stop()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want its own end", err)
	}
	called := false
	r.OnDrain(func() { called = true })
	if !called {
		t.Error("a function added after the stop has begun was not called")
	}
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	tel := telemetry.Discard()
	var log bytes.Buffer
	tel.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg := plain()
	cfg.DrainTimeout = conf.Duration(20 * time.Millisecond)
	r := start(t, cfg, tel, &echo{})
	stream := openStream(t, dial(t, r.addr, rpc.DefaultClientConfig()))
	r.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v, want UNAVAILABLE", err)
	}
	if !strings.Contains(log.String(), "calls are cut off") {
		t.Errorf("log = %q, want a line about it", log.String())
	}
}
