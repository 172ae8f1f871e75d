package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Environment variables that llm-d's sidecar reads. They are defaults: files, flags and
// settings go before. POD_IP is read where the address is needed.
const (
	envPool          = "INFERENCE_POOL"
	envPoolNamespace = "INFERENCE_POOL_NAMESPACE"
	envPoolName      = "INFERENCE_POOL_NAME"
	envSampling      = "ENABLE_PREFILLER_SAMPLING"
	envBootstrapPort = "SGLANG_BOOTSTRAP_PORT"
)

// environment takes over the environment.
func (c *Config) environment(get func(string) string) error {
	var faults []error
	pool, err := poolName(get(envPool), get(envPoolNamespace), get(envPoolName))
	switch {
	case err != nil:
		faults = append(faults, fmt.Errorf("environment: %s: %w", envPool, err))
	case pool != "":
		c.Pool = pool
	}
	if v := get(envSampling); v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			faults = append(faults, fmt.Errorf("environment: %s: %q is neither true nor false", envSampling, v))
		}
		c.Proxy.Prefill.Sampling = on
	}
	if v := get(envBootstrapPort); v != "" {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil || n == 0 {
			faults = append(faults, fmt.Errorf("environment: %s: %q is not a port", envBootstrapPort, v))
		}
		c.Proxy.Prefill.BootstrapPort = uint16(n)
	}
	return errors.Join(faults...)
}

// defaultNamespace is that of a pool that is named without one.
const defaultNamespace = "default"

// poolName returns the name under which collectors that follow Kubernetes broadcast an
// InferencePool, "namespace/name"; "" if none is named. both is "namespace/name" or "name",
// and goes before the two apart.
func poolName(both, namespace, name string) (string, error) {
	if both != "" {
		var found bool
		if namespace, name, found = strings.Cut(both, "/"); !found {
			namespace, name = defaultNamespace, both
		}
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return "", fmt.Errorf("%q is neither NAMESPACE/NAME nor NAME", both)
		}
	}
	if name == "" {
		return "", nil
	}
	if namespace == "" {
		namespace = defaultNamespace
	}
	return namespace + "/" + name, nil
}
