package reference

// origin says where the name, the parameters and the idea of a type come from.
func origin(typ string) string {
	switch typ {
	case "single-profile-handler", "least-kv-cache-filter", "least-queue-filter", "lora-affinity-filter", "low-queue-filter",
		"prefix-cache-scorer", "max-score-picker", "random-picker", "kv-cache-scorer", "queue-scorer":
		return "From the documentation of the Inference Gateway's endpoint picker (v0.5)."
	case "decision-tree-filter":
		return "From the code of the Inference Gateway's endpoint picker (v0.5), where it is not documented."
	}
	return "From newer endpoint pickers (Inference Gateway 1.x, llm-d)."
}
