package remote

// builtins returns the services that come with Pointsman and the types that each
// serves, so that a configuration which uses them loads while they are down.
func builtins() map[string][]string {
	return map[string][]string{
		"scorer-queue": {
			"queue-scorer", "running-requests-size-scorer", "load-aware-scorer", "active-request-scorer", "token-load-scorer", "context-length-aware",
		},
		"scorer-kv":      {"kv-cache-scorer", "kv-cache-utilization-scorer", "lora-affinity-scorer"},
		"prefix-indexer": {"prefix-cache-scorer", "session-affinity-scorer", "no-hit-lru-scorer"},
	}
}

// complete returns the built-in services, as configured or else in this process, if it has them
// within, or at their default targets, followed by all others in configuration order.
func complete(scorers []ScorerConfig, embedded map[string]Embedded) []ScorerConfig {
	var all []ScorerConfig
	for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
		s := ScorerConfig{Name: name}
		for _, c := range scorers {
			if c.Name == name {
				s = c
			}
		}
		if s.Target == "" {
			s.Target = "dns:///" + name + ":9100"
			if _, within := embedded[name]; within {
				s.Target = embeddedTarget
			}
		}
		all = append(all, s)
	}
	for _, c := range scorers {
		if _, builtin := builtins()[c.Name]; !builtin {
			all = append(all, c)
		}
	}
	return all
}
