package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
)

const (
	maxID   = 128 // bytes, as the scorer contract has it
	maxName = 253 // bytes, as DNS has it
)

// List is endpoints and names, and what is said of requests to them, as in the
// configuration and in the endpoints file.
type List struct {
	// Endpoints are single endpoints.
	Endpoints []EndpointConfig `yaml:"endpoints"`
	// DNS are names of which each address is an endpoint.
	DNS []DNSConfig `yaml:"dns"`
	// Policy is, at the top level, objectives, rewrites, models, criticalModels.
	Policy `yaml:",inline"`
}

// EndpointConfig is one endpoint.
type EndpointConfig struct {
	// Address is an IP address or a host name. Required.
	Address string `yaml:"address"`
	// ID names the endpoint. It must be a new one whenever the endpoint is replaced.
	// Default: address:port, and a number from the second time on that it appears.
	ID string `yaml:"id"`

	Traits `yaml:",inline"`
}

// DNSConfig is a name of which each address is an endpoint.
type DNSConfig struct {
	// Name is resolved to IPv4 and IPv6 addresses. Required.
	Name string `yaml:"name"`

	Traits `yaml:",inline"`
}

// Traits are what endpoints and names have in common.
type Traits struct {
	// Port of the inference API. Required.
	Port int `yaml:"port"`
	// Scheme of the inference API, http or https. Default http.
	Scheme string `yaml:"scheme"`
	// Labels are told to routers and scorers as they are.
	Labels map[string]string `yaml:"labels"`
	// Engine is one of vllm, sglang, trtllm-serve and triton-tensorrt-llm. Default: the
	// label llm-d.ai/engine-type, or else what the page looks like.
	Engine string `yaml:"engine"`
	// Models and adapters on offer. Default: asked of the endpoint.
	Models []string `yaml:"models"`
	// Interval between two scrapes. Default: scrape.interval.
	Interval conf.Duration `yaml:"interval"`
	// Metrics is the metrics page. Default: defaults.metrics.
	Metrics SourceConfig `yaml:"metrics"`
	// ModelList is the list of models. Default: defaults.modelList.
	ModelList SourceConfig `yaml:"modelList"`
}

// SourceConfig is something to GET from an endpoint.
type SourceConfig struct {
	// Path begins with a slash.
	Path string `yaml:"path"`
	// Port, if it is not that of the inference API.
	Port int `yaml:"port"`
	// Scheme, if it is not that of the inference API: http or https.
	Scheme string `yaml:"scheme"`
	// Token is sent as a bearer token.
	Token conf.Secret `yaml:"token"`
	// TokenFile holds the token; it is read anew when it changes.
	TokenFile string `yaml:"tokenFile"`
	// TLS is how the endpoint is authenticated if the scheme is https.
	TLS TLSConfig `yaml:"tls"`
}

// TLSConfig names PEM files, which are read anew when they change.
type TLSConfig struct {
	// CAFile holds the authorities that certificates are checked against. Default: the
	// system's.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are our own certificate, if the endpoint asks for one.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// ServerName is what the certificate must be for. Default: the address.
	ServerName string `yaml:"serverName"`
	// InsecureSkipVerify accepts any certificate, such as a self-signed one.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify"`
}

// Validate returns all faults, each beginning with its key.
func (l List) Validate() error {
	var faults []error
	keys := make(map[string]string)
	for i, e := range l.Endpoints {
		at := fmt.Sprintf("endpoints[%d]", i)
		faults = append(faults, validateHost(at+".address", e.Address), validateID(at+".id", e.ID), e.validate(at))
		t := e.target(DefaultsConfig{})
		for _, key := range []string{t.Key(), t.Address()} {
			if first, there := keys[key]; there && first != at {
				faults = append(faults, fmt.Errorf("%s: is the same endpoint as %s (%s)", at, first, key))
				break
			}
			keys[key] = at
		}
	}
	for i, d := range l.DNS {
		at := fmt.Sprintf("dns[%d]", i)
		faults = append(faults, validateHost(at+".name", d.Name), d.validate(at))
	}
	return errors.Join(append(faults, l.Policy.Validate())...)
}

func validateHost(key, host string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	switch {
	case host == "":
		return fmt.Errorf("%s: is missing", key)
	case strings.Contains(bare, ":"):
		if _, err := netip.ParseAddr(bare); err != nil {
			return fmt.Errorf("%s: %q is no IP address or host name; the port goes into port", key, host)
		}
	case len(host) > maxName || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-._") != "":
		return fmt.Errorf("%s: %.64q is no IP address or host name", key, host)
	}
	return nil
}

func validateID(key, id string) error {
	if len(id) > maxID {
		return fmt.Errorf("%s: has %d bytes, at most %d are allowed", key, len(id), maxID)
	}
	for _, c := range id {
		if c <= ' ' || c == 0x7f || c == '#' {
			return fmt.Errorf("%s: %q holds a blank, a control character or #", key, id)
		}
	}
	return nil
}

func (t *Traits) validate(at string) error {
	var faults []error
	if t.Port < 1 || t.Port > 65535 {
		faults = append(faults, fmt.Errorf("%s.port: must be from 1 to 65535, not %d", at, t.Port))
	}
	faults = append(faults, validateScheme(at+".scheme", t.Scheme))
	if t.Engine != "" {
		if _, ok := engine.Parse(t.Engine); !ok {
			faults = append(faults, fmt.Errorf("%s.engine: must be one of %v, not %q", at, engine.Names(), t.Engine))
		}
	}
	for name := range t.Labels {
		if name == "" {
			faults = append(faults, fmt.Errorf("%s.labels: a label has no name", at))
		}
	}
	for i, m := range t.Models {
		if m == "" {
			faults = append(faults, fmt.Errorf("%s.models[%d]: is empty", at, i))
		}
	}
	if t.Interval < 0 || t.Interval > 0 && t.Interval.D().Milliseconds() < 1 {
		faults = append(faults, fmt.Errorf("%s.interval: must be at least 1ms, not %s", at, t.Interval))
	}
	faults = append(faults, t.Metrics.validate(at+".metrics"), t.ModelList.validate(at+".modelList"))
	return errors.Join(faults...)
}

func (s *SourceConfig) validate(at string) error {
	var faults []error
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		faults = append(faults, fmt.Errorf("%s.path: must begin with a slash, %q does not", at, s.Path))
	}
	if s.Port < 0 || s.Port > 65535 {
		faults = append(faults, fmt.Errorf("%s.port: must be from 1 to 65535, not %d", at, s.Port))
	}
	faults = append(faults, validateScheme(at+".scheme", s.Scheme))
	if s.Token != "" && s.TokenFile != "" {
		faults = append(faults, fmt.Errorf("%s.tokenFile: cannot be combined with token: keep one", at))
	}
	if strings.ContainsFunc(string(s.Token), func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		faults = append(faults, fmt.Errorf("%s.token: holds characters that no HTTP header may have", at))
	}
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		faults = append(faults, fmt.Errorf("%s.tls: certFile and keyFile belong together: set both or neither", at))
	}
	return errors.Join(faults...)
}

func validateScheme(key, scheme string) error {
	if scheme != "" && scheme != "http" && scheme != "https" {
		return fmt.Errorf("%s: must be http or https, not %q", key, scheme)
	}
	return nil
}
