package remote

import (
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// Replicas are dialled by address, and their certificates are for the name.
func TestCertificatesAreForTheName(t *testing.T) {
	for name, tc := range map[string]struct {
		target string
		tls    rpc.TLSConfig
		want   string
	}{
		"the target's host": {"dns:///scorer-kv.pool:9100", rpc.TLSConfig{CAFile: "ca.pem"}, "scorer-kv.pool"},
		"the operator's":    {"dns:///scorer-kv.pool:9100", rpc.TLSConfig{CAFile: "ca.pem", ServerName: "kv"}, "kv"},
		"of several hosts":  {"10.0.0.1:1,10.0.0.2:1", rpc.TLSConfig{CAFile: "ca.pem"}, ""},
		"no certificates":   {"dns:///scorer-kv.pool:9100", rpc.TLSConfig{}, ""},
	} {
		s, err := newService(nil, ScorerConfig{Name: "acme", Target: tc.target, TLS: tc.tls}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.client.TLS.ServerName; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A certificate that cannot be read is the replica's reason, and no crash.
func TestUnreadableCertificate(t *testing.T) {
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: "127.0.0.1:1", Types: []string{"acme"}, TLS: rpc.TLSConfig{CAFile: "/does/not/exist.pem"}}})
	out := r.ask(r.resolve("acme"))[0]
	if want := "no such file"; !strings.Contains(out.Reason, want) {
		t.Errorf("reason %q", out.Reason)
	}
}
