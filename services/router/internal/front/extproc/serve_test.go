package extproc

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// listening starts both parts of a server and returns their addresses.
func listening(t *testing.T, tel *telemetry.Telemetry, change func(c *Config)) map[string]string {
	t.Helper()
	r := &rig{t: t, tel: tel, roster: roster.New(roster.Config{}), max: 1}
	r.setTable([]roster.Endpoint{{ID: "e", Host: "10.0.0.1", Port: 8000}})
	cfg := DefaultConfig()
	cfg.Address, cfg.HealthAddress = "127.0.0.1:0", "127.0.0.1:0"
	change(&cfg)
	s, err := New(Deps{Decider: r, Roster: r.roster, Quarantine: r, Telemetry: tel}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	addresses := map[string]string{}
	ctx, cancel := context.WithCancel(t.Context())
	ctx = run.WithAnnounce(ctx, func(_, listener, addr string) { mu.Lock(); addresses[listener] = addr; mu.Unlock() })
	part, err := s.Part(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for _, p := range []run.Part{part, s.HealthPart(io.Discard)} {
		ready := make(chan struct{})
		done.Go(func() {
			if err := p(ctx, func() { close(ready) }); err != nil {
				t.Errorf("a part ended with %v", err)
			}
		})
		<-ready
	}
	t.Cleanup(func() { cancel(); done.Wait() })
	mu.Lock()
	defer mu.Unlock()
	return addresses
}

// certificateOf returns the certificate of a listener.
func certificateOf(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		t.Errorf("the protocol is %q", c.ConnectionState().NegotiatedProtocol)
	}
	return c.ConnectionState().PeerCertificates[0]
}

func pick(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := extproc.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{EndOfStream: true}}}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m, err := s.Recv()
	if err == nil && m.GetRequestHeaders() == nil {
		t.Errorf("it was answered with %v", m)
	}
	return err
}

func TestSelfSigned(t *testing.T) {
	at := listening(t, telemetry.Discard(), func(*Config) {})
	unchecked := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	if err := pick(t, at["extProc"], unchecked); err != nil {
		t.Error(err)
	}
	if err := pick(t, at["extProc"], insecure.NewCredentials()); err == nil {
		t.Error("it was served in plain text")
	}
	c := certificateOf(t, at["extProc"])
	if now := time.Now(); c.NotBefore.After(now) || c.NotAfter.Before(now.AddDate(9, 0, 0)) || c.IsCA {
		t.Errorf("the certificate is %+v", c)
	}
	other := listening(t, telemetry.Discard(), func(*Config) {})
	if certificateOf(t, other["extProc"]).SerialNumber.Cmp(c.SerialNumber) == 0 {
		t.Error("two processes have the same certificate")
	}
}

func TestPlainText(t *testing.T) {
	at := listening(t, telemetry.Discard(), func(c *Config) { c.SecureServing = false })
	if err := pick(t, at["extProc"], insecure.NewCredentials()); err != nil {
		t.Error(err)
	}
}

func TestOff(t *testing.T) {
	at := listening(t, telemetry.Discard(), func(c *Config) { c.Address, c.HealthAddress = "", "" })
	if len(at) > 0 {
		t.Errorf("it listens on %v", at)
	}
}

// The certificate of a directory is used, and the one that replaces it.
func TestCertPath(t *testing.T) {
	dir := t.TempDir()
	write := func() {
		cert, err := SelfSigned(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: key}} {
			if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	at := listening(t, telemetry.Discard(), func(c *Config) { c.CertPath = dir })
	first := certificateOf(t, at["extProc"])
	write()
	kittest.Eventually(t, "the new certificate", func() bool {
		return certificateOf(t, at["extProc"]).SerialNumber.Cmp(first.SerialNumber) != 0
	})
	if err := pick(t, at["extProc"], credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})); err != nil {
		t.Error(err)
	}
	cfg := DefaultConfig()
	cfg.CertPath = filepath.Join(dir, "none")
	if _, err := cfg.Credentials(func(error) {}); err == nil || !strings.HasPrefix(err.Error(), "certPath: ") {
		t.Errorf("the error is %v", err)
	}
}

// B174: what gateways and probes ask for is as ready as the router, liveness is always
// served, and a name that nobody knows is an error in every state.
func TestHealth(t *testing.T) {
	tel := telemetry.Discard()
	tel.Health.Set("roster", errors.New("no table"))
	at := listening(t, tel, func(c *Config) { c.SecureServing = false })
	conn, err := grpc.NewClient(at["extProcHealth"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthv1.NewHealthClient(conn)
	check := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range []string{"", ServiceName, "inference-extension", "readiness"} {
			got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
			if err != nil || got.GetStatus() != want {
				t.Errorf("%q is %v, %v; want %v", name, got.GetStatus(), err, want)
			}
		}
		if got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "liveness"}); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("liveness is %v, %v", got.GetStatus(), err)
		}
		if got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "readyness"}); status.Code(err) != codes.NotFound {
			t.Errorf("an unknown name is %v, %v", got.GetStatus(), err)
		}
	}
	check(healthv1.HealthCheckResponse_NOT_SERVING)
	watch, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: ServiceName})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
			t.Errorf("the watcher hears %v, %v; want %v", got.GetStatus(), err, want)
		}
	}
	next(healthv1.HealthCheckResponse_NOT_SERVING)
	tel.Health.Set("roster", nil)
	next(healthv1.HealthCheckResponse_SERVING)
	check(healthv1.HealthCheckResponse_SERVING)
	tel.Health.Set("roster", errors.New("lost"))
	next(healthv1.HealthCheckResponse_NOT_SERVING)
	if watch, err = client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "readyness"}); err != nil {
		t.Fatal(err)
	}
	next(healthv1.HealthCheckResponse_SERVICE_UNKNOWN)
}

// When the router stops, an answer that goes through it may come to its end.
func TestStopAwaitsAnswersInFullDuplex(t *testing.T) {
	r := &rig{t: t, tel: telemetry.Discard(), roster: roster.New(roster.Config{}), max: 1}
	r.setTable([]roster.Endpoint{{ID: "e", Host: "10.0.0.1", Port: 8000}})
	for name, c := range map[string]struct {
		drain time.Duration
		want  error // of the stream; io.EOF: its own end
	}{"there is time": {time.Minute, io.EOF}, "there is none": {0, nil}} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Address, cfg.SecureServing, cfg.DrainTimeout = "127.0.0.1:0", false, conf.Duration(c.drain)
			s, err := New(Deps{Decider: r, Roster: r.roster, Quarantine: r, Telemetry: r.tel}, cfg)
			if err != nil {
				t.Fatal(err)
			}
			part, err := s.Part(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			addresses := make(chan string, 1)
			ctx, stop := context.WithCancel(run.WithAnnounce(t.Context(), func(_, _, addr string) { addresses <- addr }))
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- part(ctx, func() {}) }()
			conn, err := grpc.NewClient(<-addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			stream, err := extproc.NewExternalProcessorClient(conn).Process(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := &proxy{r: r, stream: stream, config: &extproc.ProtocolConfiguration{RequestBodyMode: 4, ResponseBodyMode: 4}}
			p.headers("GET", "/v1/models", true)
			p.routed()
			p.answer(200, false, "content-type", "text/event-stream")
			p.recv()
			stop()
			if c.want == nil {
				if m, err := stream.Recv(); err == nil {
					t.Errorf("after the stop came %v", m)
				}
			} else {
				p.answerBody("data: x\n\n", true)
				p.same("data: x\n\n")
				if err := stream.CloseSend(); err != nil {
					t.Error(err)
				}
				if m, err := stream.Recv(); !errors.Is(err, c.want) {
					t.Errorf("the stream ended with %v, %v", m, err)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if o := r.last(); o.Completed != (c.want != nil) || o.Finished != 1 {
				t.Errorf("the outcome is %+v", o)
			}
		})
	}
}
