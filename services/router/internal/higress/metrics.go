package higress

import (
	"slices"
	"strings"
)

// gauge is a metric that the plug-in may be told to go by, and the scorer that does.
type gauge struct{ metric, scorer string }

func gauges() []gauge {
	return []gauge{
		{"vllm:num_requests_waiting", "queue-scorer"},
		{"vllm:num_requests_running", "running-requests-size-scorer"},
		{"vllm:gpu_cache_usage_perc", "kv-cache-scorer"},
		{"vllm:kv_cache_usage_perc", "kv-cache-scorer"},
		{"sglang:num_queue_reqs", "queue-scorer"},
		{"sglang:num_running_reqs", "running-requests-size-scorer"},
		{"sglang:token_usage", "kv-cache-scorer"},
	}
}

// endpointMetrics: the tree of least_busy in which everything is critical, or one metric.
func endpointMetrics(f *fields, out *Imported) {
	how, metric := f.text("metric_policy"), f.text("target_metric")
	if engine := f.text("engine"); engine != "" {
		f.info(f.at["engine"], f.name("engine"), "has no effect: the metrics-collector finds out which engine an endpoint runs")
	}
	for _, key := range []string{"window_seconds", "window_size"} {
		if n := f.get(key); n != nil {
			f.info(n, f.name(key), "has no effect: see rate_limit")
		}
	}
	if rate := f.number("rate_limit", 1); rate < 1 {
		f.warn(f.at["rate_limit"], f.name("rate_limit"), "has no effect: picks count at once wherever load decides, so no endpoint gets more than its share until the next scrape")
	}
	switch how {
	case "", "default":
		if metric != "" {
			f.warn(f.at["target_metric"], f.name("target_metric"), "has no effect with metric_policy default, which goes by queue, adapters and KV cache; choose least or most")
		}
		t := &tree{}
		t.write("# "+out.Policy+": nobody is turned away; by queue, adapters and KV cache.", strings.TrimRight(head, "\n"), "plugins:")
		t.parts()
		inner := critical("")
		inner = strings.TrimPrefix(inner, "decisionTree:\n")
		t.b.WriteString("- name: least-busy\n  type: decision-tree-filter\n  parameters:\n" + indented(inner, "  ") + leastBusyProfile + "  - pluginRef: least-busy\n  - pluginRef: max-score-picker\n")
		out.Text = []byte(t.b.String())
	case "least", "most":
		f.byMetric(out, how, metric)
	default:
		f.fault(f.at["metric_policy"], f.name("metric_policy"), "must be default, least or most, not %q", how)
	}
}

func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

func (f *fields) byMetric(out *Imported, how, metric string) {
	at := f.at["target_metric"]
	if at == nil {
		at = f.node
	}
	all := gauges()
	i := slices.IndexFunc(all, func(g gauge) bool { return g.metric == metric })
	if i < 0 {
		var names []string
		for _, g := range all {
			names = append(names, g.metric)
		}
		f.fault(at, f.name("target_metric"), "%q is no metric that is read here; it is one of %s", metric, strings.Join(names, ", "))
		return
	}
	weight := "1"
	if how == "most" {
		weight = "-1"
	}
	out.Text = []byte("# " + out.Policy + ": the endpoint with the " + how + " " + metric + ".\n" + head + "plugins:\n- type: " + all[i].scorer + "\n" + leastBusyProfile +
		"  - pluginRef: " + all[i].scorer + "\n    weight: " + weight + "\n  - pluginRef: max-score-picker\n")
}
