package roster

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// ID names an endpoint for as long as it lives; never reused.
type ID string

// RoleLabel is the label that names an endpoint's part in disaggregated serving.
const RoleLabel = "llm-d.ai/role"

// Label is one operator-chosen label.
type Label struct{ Name, Value string }

// Endpoint is one model-server replica. It is immutable.
type Endpoint struct {
	// ID names the endpoint.
	ID ID
	// Host is an IP address or a host name, IPv6 without brackets.
	Host string
	// Port is that of the inference API.
	Port uint16
	// Address is Host and Port as one dials them, IPv6 bracketed. Set by NewTable.
	Address string
	// Scheme is "http" or "https". NewTable makes "" "http".
	Scheme string
	// Engine is the model server software, such as "vllm". Empty: not known.
	Engine string
	// Role is the value of RoleLabel. Set by NewTable.
	Role string
	// Labels are sorted by name by NewTable.
	Labels []Label
	// Models are the models and adapters on offer. Empty: not known.
	Models []string
	// CacheBlockSize is tokens in one KV-cache block. 0: not known.
	CacheBlockSize uint32
	// CacheBlockCount is the number of KV-cache blocks. 0: not known.
	CacheBlockCount uint32
}

// Label returns the value of a label, and false if the endpoint lacks it.
func (e *Endpoint) Label(name string) (string, bool) {
	i, ok := slices.BinarySearchFunc(e.Labels, name, func(l Label, n string) int { return strings.Compare(l.Name, n) })
	if !ok {
		return "", false
	}
	return e.Labels[i].Value, true
}

func (e *Endpoint) complete() {
	e.Address = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	if e.Scheme == "" {
		e.Scheme = "http"
	}
	slices.SortFunc(e.Labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	e.Role, _ = e.Label(RoleLabel)
}

func (e *Endpoint) equal(o *Endpoint) bool {
	return e.ID == o.ID && e.Host == o.Host && e.Port == o.Port && e.Scheme == o.Scheme && e.Engine == o.Engine &&
		e.CacheBlockSize == o.CacheBlockSize && e.CacheBlockCount == o.CacheBlockCount &&
		slices.Equal(e.Labels, o.Labels) && slices.Equal(e.Models, o.Models)
}
