package fleet

import (
	"log/slog"
	"net"
	"reflect"
	"strconv"
	"time"
)

// ID names an endpoint for as long as it lives.
type ID string

// Label is one operator-chosen label of an endpoint.
type Label struct{ Name, Value string }

// Secret is a string that is never printed.
type Secret string

// String returns "[secret]", or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[secret]"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue logs String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Target is an endpoint as it was discovered. It is immutable.
type Target struct {
	// GivenID is the id that the operator wants, empty for host:port.
	GivenID string
	// Host is an IP address or a host name, IPv6 without brackets; Port is that of the
	// inference API, and Scheme, "http" or "https", as well.
	Host   string
	Port   uint16
	Scheme string
	// Engine is the model server software; empty: seen on its page.
	Engine string
	// Labels are ascending by name.
	Labels []Label
	// Models on offer; empty: asked of the endpoint.
	Models []string
	// Metrics is the page to scrape, ModelList the list of models.
	Metrics, ModelList Source
	// Interval between two scrapes' beginnings; 0: the collector's default.
	Interval time.Duration
}

// Source is something to GET from an endpoint.
type Source struct {
	Scheme    string // "http" or "https"
	Port      uint16
	Path      string // begins with a slash
	Token     Secret // bearer token; TokenFile if empty
	TokenFile string // holds the token, read anew when it changes
	TLS       TLS
}

// TLS says how a server is authenticated and how we are. Files are in PEM.
type TLS struct {
	CAFile, CertFile, KeyFile, ServerName string
	InsecureSkipVerify                    bool
}

// Address returns host:port of the inference API, IPv6 bracketed.
func (t *Target) Address() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// URL returns where a source of the target is.
func (t *Target) URL(s *Source) string {
	return s.Scheme + "://" + net.JoinHostPort(t.Host, strconv.Itoa(int(s.Port))) + s.Path
}

// Key tells targets apart: the given id, or the address.
func (t *Target) Key() string {
	if t.GivenID != "" {
		return t.GivenID
	}
	return t.Address()
}

// Equal says whether both targets are the same in every respect.
func (t *Target) Equal(o *Target) bool { return reflect.DeepEqual(t, o) }
