package envoy

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"go.yaml.in/yaml/v3"
)

// object is a mapping of a bootstrap file.
type object = map[string]any

// bootstrap is a file of deploy/envoy, made fit for a test: other ports, and a listener
// for each way to set things up.
type bootstrap struct {
	text []byte // of the file
	doc  object
}

// load reads a file of deploy/envoy.
func load(t testing.TB, name string) *bootstrap {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "envoy", name))
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrap{text: text, doc: decode(t, text)}
	at[object](t, b.doc, "admin", "address", "socket_address")["port_value"] = 0
	at[object](t, b.doc, "static_resources")["listeners"] = []any{}
	return b
}

func decode(t testing.TB, text []byte) object {
	t.Helper()
	var doc object
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at returns what is at a path of keys and indexes.
func at[T any](t testing.TB, doc any, path ...any) T {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := doc.(object)
			doc = m[s]
		case int:
			l, _ := doc.([]any)
			if s >= len(l) {
				t.Fatalf("the bootstrap file has nothing at %v", path)
			}
			doc = l[s]
		}
	}
	v, ok := doc.(T)
	if !ok {
		t.Fatalf("the bootstrap file has %T at %v", doc, path)
	}
	return v
}

// cluster returns the cluster of that name.
func (b *bootstrap) cluster(t testing.TB, name string) object {
	t.Helper()
	for _, c := range at[[]any](t, b.doc, "static_resources", "clusters") {
		if at[string](t, c, "name") == name {
			return at[object](t, c)
		}
	}
	t.Fatalf("the bootstrap file has no cluster %q", name)
	return nil
}

// pool puts addresses into a cluster.
func (b *bootstrap) pool(t testing.TB, name string, addresses ...string) {
	t.Helper()
	var list []any
	for _, a := range addresses {
		list = append(list, object{"endpoint": object{"address": socketAddress(t, a)}})
	}
	at[object](t, b.cluster(t, name), "load_assignment", "endpoints", 0)["lb_endpoints"] = list
}

func socketAddress(t testing.TB, address string) object {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return object{"socket_address": object{"address": host, "port_value": n}}
}

// listener is the file's listener once more.
type listener struct {
	self, manager, host, route, extProc object
	filters                             []any
}

// listen adds the file's listener under a name, on a free port, after edit has changed
// it. edit may be nil.
func (b *bootstrap) listen(t testing.TB, name string, edit func(l *listener)) {
	t.Helper()
	self := at[object](t, decode(t, b.text), "static_resources", "listeners", 0)
	self["name"] = name
	at[object](t, self, "address", "socket_address")["port_value"] = 0
	manager := at[object](t, self, "filter_chains", 0, "filters", 0, "typed_config")
	manager["stat_prefix"] = name
	l := &listener{
		self: self, manager: manager,
		host:    at[object](t, manager, "route_config", "virtual_hosts", 0),
		route:   at[object](t, manager, "route_config", "virtual_hosts", 0, "routes", 0, "route"),
		filters: at[[]any](t, manager, "http_filters"),
	}
	l.extProc = at[object](t, l.filters[0], "typed_config")
	l.extProc["message_timeout"] = "10s" // on a machine that is busy with tests
	if edit != nil {
		edit(l)
	}
	manager["http_filters"] = l.filters
	resources := at[object](t, b.doc, "static_resources")
	resources["listeners"] = append(at[[]any](t, resources, "listeners"), self)
}

// modes sets how bodies are sent to the picker.
func (l *listener) modes(request, response string) {
	mode, _ := l.extProc["processing_mode"].(object)
	mode["request_body_mode"], mode["response_body_mode"] = request, response
}

// before puts a filter before the picker's.
func (l *listener) before(name, kind string, config object) {
	config["@type"] = "type.googleapis.com/" + kind
	l.filters = append([]any{object{"name": name, "typed_config": config}}, l.filters...)
}
