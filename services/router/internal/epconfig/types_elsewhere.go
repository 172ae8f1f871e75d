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
		"inflight-load-producer":       "the router counts the requests and tokens in flight of every replica, and scorers know them",
		"disagg-headers-handler":       "the fronts set the headers of the stages that the profile handler planned",
		"prefill-header-handler":       "the fronts set the headers of the stages that the profile handler planned",
		"token-producer":               "prompt tokens are estimated, as 4 bytes each",
		"tokenizer":                    "prompt tokens are estimated, as 4 bytes each",
	} {
		types = append(types, &Type{
			Name: name, Role: RoleElsewhere, Summary: "Accepted and not needed: " + who + ".",
		})
	}
	return types
}

// later is a plug-in type of newer endpoint pickers that is not here.
type later struct {
	// what is its part.
	what string
	// nearest is what comes nearest here, in words; empty if nothing does.
	nearest string
}

// laterTypes are plug-in types of newer endpoint pickers that the router does not
// have. A scorer service may still offer one of these names.
func laterTypes() map[string]later {
	types := map[string]later{}
	add := func(what, nearest string, names ...string) {
		for _, name := range names {
			types[name] = later{what, nearest}
		}
	}
	add("filter", "session-affinity-scorer, with a great weight", "session-affinity-filter")
	add("filter", "low-queue-filter or token-load-scorer; there are no predictions of latency", "slo-headroom-tier-filter")
	add("scorer", "prefix-cache-scorer, which goes by the prompts that were sent", "precise-prefix-cache-scorer")
	add("scorer", "token-load-scorer and queue-scorer; there are no predictions of latency", "latency-scorer", "predicted-latency-scorer")
	add("data producer", "token-load-scorer and queue-scorer; there are no predictions of latency", "predicted-latency-producer")
	add("admission plug-in", "", "latency-slo-admitter", "probabilistic-admitter")
	add("request control", "", "request-attribute-reporter", "destination-endpoint-served-verifier")
	add("request parser", "openai-parser", "vllmgrpc-parser", "passthrough-parser", "vertexai-parser")
	add("flow control plug-in", "", "global-strict-fairness-policy", "round-robin-fairness-policy", "fcfs-ordering-policy",
		"edf-ordering-policy", "slo-deadline-ordering-policy", "static-usage-limit-policy", "sheddable-eviction-filter",
		"priority-then-time-eviction-order-policy", "eviction-sheddable-filter", "eviction-priority-then-time-ordering")
	return types
}
