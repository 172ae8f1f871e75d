package kube

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Config says which pools are followed.
type Config struct {
	// PoolName is the InferencePool whose pods are the endpoints. Default: no pool is
	// followed.
	PoolName string `yaml:"poolName"`
	// PoolNamespace is where that pool is. Default: the namespace that the collector
	// runs in, or "default" outside of a cluster.
	PoolNamespace string `yaml:"poolNamespace"`
	// WatchAllPools follows every InferencePool of the cluster, each under the name
	// NAMESPACE/NAME, in place of one. Default false.
	WatchAllPools bool `yaml:"watchAllPools"`
	// Kubeconfig is a file that says how the API server is reached. Default: as pods do.
	Kubeconfig string `yaml:"kubeconfig"`
	// AddressFamily is ipv4 or ipv6 for pods that have addresses of both. Default: the
	// address that the cluster puts first.
	AddressFamily string `yaml:"addressFamily"`
}

// DefaultConfig returns a Config that follows no pool.
func DefaultConfig() Config { return Config{} }

// On says whether pools are followed at all.
func (c Config) On() bool { return c.PoolName != "" || c.WatchAllPools }

// Validate returns all faults, each beginning with its key below "kubernetes".
func (c Config) Validate() error {
	var faults []error
	if c.WatchAllPools && c.PoolName != "" {
		faults = append(faults, errors.New("watchAllPools: cannot be combined with poolName: keep one"))
	}
	if c.PoolNamespace != "" && c.PoolName == "" {
		faults = append(faults, errors.New("poolName: missing, although poolNamespace is set"))
	}
	for key, name := range map[string]string{"poolName": c.PoolName, "poolNamespace": c.PoolNamespace} {
		if name != "" && !dnsName(name) {
			faults = append(faults, fmt.Errorf("%s: %.64q is no name of an object", key, name))
		}
	}
	if f := c.AddressFamily; f != "" && f != ipv4 && f != ipv6 {
		faults = append(faults, fmt.Errorf("addressFamily: must be ipv4 or ipv6, not %q", f))
	}
	return errors.Join(faults...)
}

// dnsName says whether a text can be an object's name, and stand in a URL.
func dnsName(name string) bool {
	return len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && strings.Trim(name, ".") == name
}

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is where the one pool is looked for.
func (c Config) namespace() string {
	if c.PoolNamespace != "" {
		return c.PoolNamespace
	}
	if text, err := os.ReadFile(namespaceFile); err == nil {
		if n := strings.TrimSpace(string(text)); dnsName(n) && n != "" {
			return n
		}
	}
	return "default"
}
