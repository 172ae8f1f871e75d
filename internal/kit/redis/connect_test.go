package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func newClient(t *testing.T, set func(*Config)) (*Client, *telemetry.Telemetry) {
	t.Helper()
	cfg, tel := DefaultConfig(), telemetry.Discard()
	cfg.Budget = conf.Duration(500 * time.Millisecond) // the machine is busy
	set(&cfg)
	c, err := New(cfg, tel)
	if err != nil {
		t.Fatal(err)
	}
	return c, tel
}

func ping(ctx context.Context, r goredis.UniversalClient) error { return r.Ping(ctx).Err() }

// certificate writes a certificate that is its own authority, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// B184 too: who is refused can see that, and why.
func TestTLSAndACLUser(t *testing.T) {
	cert, key := certificate(t)
	h := kittest.StartRedisTLS(t, cert, key, "--user", "pointsman", "on", ">secret", "~pointsman:*", "+@all", "-@dangerous", "--user", "default", "off")
	for _, c := range []struct {
		name string
		set  func(*Config)
		want Kind // of the probe's failure; "": none
	}{
		{"as it should be", func(*Config) {}, ""},
		{"a wrong password", func(c *Config) { c.Password = "wrong" }, Denied},
		{"nobody", func(c *Config) { c.Username, c.Password = "", "" }, Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, tel := newClient(t, func(cfg *Config) {
				cfg.Address, cfg.Username, cfg.Password = h.Address, "pointsman", "secret"
				cfg.TLS.CAFile, cfg.TLS.CertFile, cfg.TLS.KeyFile = cert, cert, key
				c.set(cfg)
			})
			start(t, client)
			if c.want == "" {
				kittest.Eventually(t, "redis is reached", client.Up)
				if notes := tel.Health.Notes(); len(notes) > 0 {
					t.Errorf("connected, and told: %v", notes)
				}
				if err := client.Do(t.Context(), "test", 0, func(ctx context.Context, r goredis.UniversalClient) error {
					return r.Set(ctx, "pointsman:k", "v", time.Minute).Err()
				}); err != nil {
					t.Error(err)
				}
				return
			}
			kittest.Eventually(t, "the failure is told", func() bool { return tel.Value("pointsman_redis_probes_total", "result", string(c.want)) > 0 })
			if client.Up() || tel.Value("pointsman_redis_connected") != 0 {
				t.Error("it is said to be up")
			}
			kittest.Eventually(t, "it is told beside the readiness", func() bool {
				notes := tel.Health.Notes()
				return len(notes) == 1 && strings.HasPrefix(notes[0], "redis: "+h.Address+" is not used: ") && !strings.Contains(notes[0], "not reached")
			})
			if ready, reasons := tel.Health.Ready(); !ready {
				t.Errorf("not ready: %v", reasons)
			}
		})
	}
}

// B187: a sentinel that is silent does not keep us from the others.
func TestASilentSentinelIsPassedBy(t *testing.T) {
	s := kittest.StartRedisSentinels(t, 2)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client, _ := newClient(t, func(c *Config) {
		c.SentinelMaster, c.Addresses, c.Timeout = s.Master, []string{silent.Addr().String(), s.Sentinels[0].Address, s.Sentinels[1].Address}, conf.Duration(2*time.Second)
	})
	start(t, client)
	kittest.Eventually(t, "redis is reached by another sentinel", client.Up)
}

// B189: many calls at a time share few connections and none fails for want of one.
func TestCallsShareConnections(t *testing.T) {
	h := kittest.StartRedis(t)
	client, tel := newClient(t, func(c *Config) { c.Address, c.PoolSize, c.Budget = h.Address, 4, conf.Duration(10*time.Second) })
	start(t, client)
	kittest.Eventually(t, "redis is reached", client.Up)
	errs := make(chan error)
	const calls = 400
	for range calls {
		go func() { errs <- client.Do(context.Background(), "test", 0, ping) }()
	}
	for range calls {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := tel.Value("pointsman_redis_calls_total", "op", "test", "result", "ok"); got != calls {
		t.Errorf("%v ok", got)
	}
	clients, err := h.Client().ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if n := countLines(clients); n > 6 {
		t.Errorf("%d connections", n)
	}
}

func countLines(s string) int {
	n := 0
	for _, r := range s {
		if r == '\n' {
			n++
		}
	}
	return n
}

// The breaker opens after few failures, and is closed by a probe, in which everybody who
// wants has a say.
func TestProbesHaveTheLastWord(t *testing.T) {
	h := kittest.StartRedis(t)
	client, tel := newClient(t, func(c *Config) { c.Address, c.Budget = h.Address, conf.Duration(100*time.Millisecond) })
	allowed := make(chan struct{})
	client.OnProbe(func(context.Context, goredis.UniversalClient) error {
		select {
		case <-allowed:
			return nil
		default:
			return ErrAway
		}
	})
	start(t, client)
	kittest.Eventually(t, "it is tried", func() bool { return tel.Value("pointsman_redis_probes_total") > 2 })
	if client.Up() {
		t.Error("up against a probe's word")
	}
	if err := client.Do(t.Context(), "test", 0, ping); KindOf(err) != Away {
		t.Errorf("a call before: %v", err)
	}
	close(allowed)
	kittest.Eventually(t, "it is up", client.Up)
	h.Halt()
	failures := 0
	for client.Up() && failures < 100 {
		if err := client.Do(t.Context(), "test", 0, ping); err != nil {
			failures++
		}
	}
	if failures > openAfter {
		t.Errorf("open after %d failures in a row", failures)
	}
	if got := tel.Value("pointsman_redis_calls_total", "op", "test", "result", "budget"); got == 0 || tel.Value("pointsman_redis_breaker_opened_total") == 0 {
		t.Errorf("over the budget: %v, opened %v", got, tel.Value("pointsman_redis_breaker_opened_total"))
	}
	h.Resume()
	kittest.Eventually(t, "it is up again", client.Up)
}

func TestBreakerOpensOnEveryOtherFailing(t *testing.T) {
	var b breaker
	now := time.Unix(1000, 0)
	for i := range openCalls {
		b.success(now)
		if b.failure(now) != (i == openCalls/openShare-1) {
			t.Fatalf("after %d of each: %v", i+1, b.current())
		}
		if b.current() == open {
			return
		}
	}
	t.Error("never opened")
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := New(DefaultConfig(), telemetry.Discard()); err == nil {
		t.Error("no address, no error")
	}
	cfg := DefaultConfig()
	cfg.Address, cfg.TLS.CAFile = "h:1", filepath.Join(t.TempDir(), "none")
	if _, err := New(cfg, telemetry.Discard()); err == nil {
		t.Error("a file that is not there, no error")
	}
}
