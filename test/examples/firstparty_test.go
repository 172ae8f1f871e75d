package examples

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/conformance"
	"github.com/pointsman/pointsman/conformance/conformancetest"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// certificate writes a key and a certificate of its own for loopback.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "scorer"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// occupy gives server i so many requests that last longer than the test, and returns the
// endpoints' ids when the router knows of them.
func occupy(t *testing.T, c *cluster.Cluster) (ids []string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var open sync.WaitGroup
	t.Cleanup(func() { stop(); open.Wait() })
	const body = `{"model":"sim-model","max_tokens":4000,"ignore_eos":true,"messages":[{"role":"user","content":"Count to a million."}]}`
	want := make(map[string]uint32) // by address
	for i, s := range c.Servers {
		want[s.Address()] = uint32(i)
		for range i {
			open.Go(func() {
				_, _ = cluster.Post(ctx, http.DefaultClient, "http://"+s.Address()+"/v1/chat/completions", []byte(body))
			})
		}
	}
	router := c.Router(t, 0)
	kittest.Eventually(t, "the router to know who is how busy", func() bool {
		listed, err := router.ListEndpoints(t.Context(), &routerv1.ListEndpointsRequest{})
		if err != nil {
			return false
		}
		ids = ids[:0]
		for _, e := range listed.GetEndpoints() {
			if e.GetRunningRequestCount()+e.GetWaitingRequestCount() != want[e.GetEndpoint().GetAddress()] {
				return false
			}
			ids = append(ids, e.GetEndpoint().GetEndpointId())
		}
		return len(ids) == len(want)
	})
	return ids
}

// Every scorer type that comes with Pointsman keeps the contract, over TCP, a Unix
// socket and TLS, asked about the endpoints of a pool that runs, on which each has an
// opinion: who abstains on everybody has shown nothing.
func TestFirstPartyScorersConform(t *testing.T) {
	// So slow that what is held in memory is the same for as long as is asked.
	c := cluster.Start(t, cluster.Options{Servers: 9, Server: func(i int, cfg *modelserver.Config) {
		cfg.TimeScale = .02
		cfg.Engine.MaxAdapters = 1 + i%3 // for lora-affinity-scorer: there is room, and none is loaded
	}, Plain: true})
	o := conformance.DefaultOptions()
	o.Endpoints = occupy(t, c)
	// The token of session-affinity-scorer: who answered before.
	o.Headers = map[string]string{"x-session-token": base64.StdEncoding.EncodeToString([]byte("default/" + o.Endpoints[3]))}
	cert, key := certificate(t)
	types := 0
	var targets map[string]string // of scorer-queue, by transport
	for name, p := range c.Scorers {
		sets := func(address string, further ...string) []string {
			args := []string{"--set", "nats.url=" + c.NATS.URL, "--set", "admin.address=", "--set", "listen.grpc.address=" + address}
			for _, s := range further {
				args = append(args, "--set", s)
			}
			return args
		}
		socket := cluster.NewProcess(t, name, cluster.PlainBinary(t, name), 1, sets("unix://"+filepath.Join(t.TempDir(), "s"))...)
		socket.Start(t)
		secured := cluster.NewProcess(t, name, cluster.PlainBinary(t, name), 1, sets("127.0.0.1:0", "listen.grpc.tls.certFile="+cert, "listen.grpc.tls.keyFile="+key)...)
		secured.Start(t)
		at := map[string]string{"tcp": p.Addr("grpc"), "unix": socket.Addr("grpc"), "tls": secured.Addr("grpc")}
		if name == "scorer-queue" {
			targets = at
		}
		for transport, target := range at {
			t.Run(name+" "+transport, func(t *testing.T) {
				cfg := rpc.DefaultClientConfig()
				if transport == "tls" {
					cfg.TLS.CAFile = cert
				}
				conn, err := rpc.Dial(target, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				// It follows the broadcast, and has just begun to.
				kittest.Eventually(t, name+" to know the pool", func() bool {
					one := o
					one.Checks = []string{"health-serving"}
					r, err := conformance.Verify(t.Context(), conn, one)
					return err == nil && r.Count(conformance.Passed) > 0
				})
				r := conformancetest.Run(t, conn, o)
				if transport == "tcp" {
					types += len(r.Types)
				}
				for _, res := range r.Results {
					if res.Outcome != conformance.Skipped || !strings.Contains(res.Reason, "shows nothing") {
						continue
					}
					// Nothing is in a cache, and no request was routed.
					alike := []string{"prefix-cache-scorer", "no-hit-lru-scorer", "active-request-scorer", "token-load-scorer", "context-length-aware", "lora-affinity-scorer"}
					if res.Check.ID != "score-order" || !slices.Contains(alike, res.Type) {
						t.Errorf("%s %s: %s", res.Type, res.Check.ID, res.Reason)
					}
				}
			})
		}
	}
	if types < 11 {
		t.Errorf("%d types were checked, want all 11", types)
	}
	// The command line says the same, over each.
	for transport, args := range map[string][]string{"tcp": nil, "unix": nil, "tls": {"--ca", cert}} {
		args = append([]string{"scorer", "verify", targets[transport], "--type", "queue-scorer", "--endpoint", o.Endpoints[0], "--endpoint", o.Endpoints[1]}, args...)
		if out := command(t, ".", nil, cluster.PlainBinary(t, "pointsman"), args...); !strings.Contains(out, "√ it conforms") {
			t.Errorf("over %s the command line says:\n%s", transport, out)
		}
	}
}
