package epconfig

// elsewhereTypes are plug-ins of newer endpoint pickers whose work is done here
// whether they are configured or not. They load, and one line says who does it.
func elsewhereTypes() []*Type {
	var types []*Type
	for name, who := range map[string]string{
		"openai-parser":                "the router's fronts read OpenAI request bodies",
		"metrics-data-source":          "the metrics-collector scrapes model servers",
		"core-metrics-extractor":       "the metrics-collector reads the metrics of vLLM, SGLang and TensorRT-LLM",
		"models-data-source":           "the metrics-collector knows the models that endpoints serve",
		"models-data-extractor":        "the metrics-collector knows the models that endpoints serve",
		"k8s-notification-source":      "the metrics-collector discovers endpoints",
		"endpoint-notification-source": "the metrics-collector discovers endpoints",
	} {
		types = append(types, &Type{
			Name: name, Role: RoleElsewhere, Summary: "Accepted and not needed: " + who + ".",
		})
	}
	return types
}

// laterTypes are plug-in types of newer endpoint pickers that the router does not
// have, and what they are. A scorer service may still offer one of these names.
func laterTypes() map[string]string {
	later := map[string]string{}
	for what, names := range map[string][]string{
		"filter": {
			"label-selector-filter", "by-label-selector", "by-label", "decode-filter", "prefill-filter", "encode-filter",
			"prefix-cache-affinity-filter", "slo-headroom-tier-filter", "header-based-testing-filter", "session-affinity-filter",
		},
		"saturation detector": {"utilization-detector", "concurrency-detector"},
		"scorer": {
			"precise-prefix-cache-scorer", "lora-affinity-scorer", "load-aware-scorer", "active-request-scorer", "token-load-scorer",
			"session-affinity-scorer", "no-hit-lru-scorer", "latency-scorer", "predicted-latency-scorer", "context-length-aware",
			"running-requests-size-scorer",
		},
		"profile handler": {
			"data-parallel-profile-handler", "disagg-profile-handler", "pd-profile-handler", "disagg-headers-handler",
			"prefill-header-handler",
		},
		"disaggregation decider": {"prefix-based-pd-decider", "always-disagg-pd-decider", "always-disagg-multimodal-decider"},
		"data producer": {
			"approx-prefix-cache-producer", "inflight-load-producer", "predicted-latency-producer", "token-producer", "tokenizer",
		},
		"admission plug-in": {"latency-slo-admitter", "probabilistic-admitter"},
		"request control":   {"request-attribute-reporter", "destination-endpoint-served-verifier"},
		"request parser":    {"vllmgrpc-parser", "passthrough-parser", "vertexai-parser"},
		"flow control plug-in": {
			"global-strict-fairness-policy", "round-robin-fairness-policy", "fcfs-ordering-policy", "edf-ordering-policy",
			"slo-deadline-ordering-policy", "static-usage-limit-policy", "sheddable-eviction-filter",
			"priority-then-time-eviction-order-policy", "eviction-sheddable-filter", "eviction-priority-then-time-ordering",
		},
	} {
		for _, name := range names {
			later[name] = what
		}
	}
	return later
}
