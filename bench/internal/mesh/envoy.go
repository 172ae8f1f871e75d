package mesh

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// envoyPatience is how long Envoy may take to listen.
const envoyPatience = 20 * time.Second

// EnvoyConfig is how Envoy is run.
type EnvoyConfig struct {
	// Binary is Envoy, and Bootstrap the file that this repository gives to those who run
	// it with an endpoint picker.
	Binary, Bootstrap string
	// Picker is the endpoint picker's ext_proc address; empty: Envoy alone, which
	// spreads requests over the endpoints evenly.
	Picker string
	// Endpoints are the model servers that Envoy alone sends to.
	Endpoints []string
}

// Envoy is a running Envoy.
type Envoy struct {
	*Process
	// URL is its listener.
	URL string
}

// StartEnvoy starts Envoy and waits until it listens.
func StartEnvoy(cfg EnvoyConfig) (*Envoy, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(cfg.Bootstrap)
	if err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	b, err := bootstrap(text, cfg, listen, admin)
	if err != nil {
		return nil, fmt.Errorf("envoy: %s: %w", cfg.Bootstrap, err)
	}
	p, err := Start(Command{
		Name: "envoy", Counted: true, Path: cfg.Binary,
		Args: []string{"--config-yaml", string(b), "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"},
	})
	if err != nil {
		return nil, err
	}
	e := &Envoy{Process: p, URL: fmt.Sprintf("http://127.0.0.1:%d", listen)}
	for end := time.Now().Add(envoyPatience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", listen), time.Second)
		if err == nil {
			return e, c.Close()
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("envoy ended: %s", p.stderr.String())
		default:
		}
	}
	_ = p.Stop()
	return nil, fmt.Errorf("envoy does not listen: %s", p.stderr.String())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close() //nolint:forcetypeassert // it listens on TCP
}

// object is a part of a bootstrap.
type object = map[string]any

// bootstrap writes the bootstrap with other ports, and without the picker if there is none.
func bootstrap(text []byte, cfg EnvoyConfig, listen, admin int) (b []byte, err error) {
	var all object
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil { // the file has another shape than it had
			err = fmt.Errorf("it is not what it was: %v", v)
		}
	}()
	resources := all["static_resources"].(object)
	listener := resources["listeners"].([]any)[0].(object)
	setPort(listener["address"], "127.0.0.1", listen)
	setPort(all["admin"].(object)["address"], "127.0.0.1", admin)
	manager := listener["filter_chains"].([]any)[0].(object)["filters"].([]any)[0].(object)["typed_config"].(object)
	clusters := resources["clusters"].([]any)
	if cfg.Picker != "" {
		host, port, err := net.SplitHostPort(cfg.Picker)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		assignment := clusters[1].(object)["load_assignment"].(object)
		setPort(assignment["endpoints"].([]any)[0].(object)["lb_endpoints"].([]any)[0].(object)["endpoint"].(object)["address"], host, n)
		return json.Marshal(all)
	}
	filters := manager["http_filters"].([]any)
	manager["http_filters"] = filters[len(filters)-1:]
	resources["clusters"] = []any{evenly(cfg.Endpoints)}
	return json.Marshal(all)
}

func setPort(address any, host string, port int) {
	s := address.(object)["socket_address"].(object)
	s["address"], s["port_value"] = host, port
}

// evenly is a cluster that takes its servers in turn.
func evenly(endpoints []string) object {
	var list []any
	for _, e := range endpoints {
		host, port, _ := net.SplitHostPort(e)
		n, _ := strconv.Atoi(port)
		list = append(list, object{"endpoint": object{"address": object{"socket_address": object{"address": host, "port_value": n}}}})
	}
	return object{
		"name": "model-servers", "type": "STATIC", "connect_timeout": "1s",
		"load_assignment": object{"cluster_name": "model-servers", "endpoints": []any{object{"lb_endpoints": list}}},
	}
}
