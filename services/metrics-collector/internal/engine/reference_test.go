package engine

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// reference reads a page of a vLLM engine with the Prometheus libraries and naive
// code. ok is false where the two may differ: pages that the libraries refuse, and
// families of another type than a number.
func reference(page []byte) (f Figures, ok bool) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return f, false
	}
	f = Figures{Waiting: Unknown, Running: Unknown, KVCacheUsage: Unknown}
	models := make(map[string]bool)
	for _, name := range []string{
		"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
		"vllm:lora_requests_info", "vllm:cache_config_info",
	} {
		mf := families[name]
		if mf == nil {
			continue
		}
		if t := mf.GetType(); t != dto.MetricType_GAUGE && t != dto.MetricType_COUNTER && t != dto.MetricType_UNTYPED {
			return f, false
		}
		switch name {
		case "vllm:num_requests_waiting":
			f.Waiting = referenceCount(mf, models)
		case "vllm:num_requests_running":
			f.Running = referenceCount(mf, models)
		case "vllm:kv_cache_usage_perc":
			f.KVCacheUsage = referenceUsage(mf)
		case "vllm:gpu_cache_usage_perc":
			if f.KVCacheUsage == Unknown {
				f.KVCacheUsage = referenceUsage(mf)
			}
		case "vllm:lora_requests_info":
			f.Adapters = referenceAdapters(mf)
		case "vllm:cache_config_info":
			f.BlockSize, f.BlockCount = referenceBlocks(mf)
		}
	}
	if !f.Known() {
		return unknown(), true
	}
	f.Engine = VLLM
	for m := range models {
		f.Models = append(f.Models, m)
	}
	sort.Strings(f.Models)
	return f, true
}

func number(m *dto.Metric) float64 {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// key spells the labels out, without those that are dropped.
func key(m *dto.Metric, drop ...string) string {
	var parts []string
	for _, l := range m.GetLabel() {
		if !slices.Contains(drop, l.GetName()) {
			parts = append(parts, l.GetName()+"\x00"+l.GetValue())
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, "\x01")
}

// newestOf keeps one metric of each label set.
func newestOf(mf *dto.MetricFamily) []*dto.Metric {
	var order []string
	newest := make(map[string]*dto.Metric)
	for _, m := range mf.GetMetric() {
		k := key(m)
		old := newest[k]
		if old == nil {
			order = append(order, k)
			newest[k] = m
		} else if m.GetTimestampMs() > old.GetTimestampMs() {
			newest[k] = m
		}
	}
	var out []*dto.Metric
	for _, k := range order {
		out = append(out, newest[k])
	}
	return out
}

// perEngine returns the highest value of each engine, in the order of appearance.
func perEngine(ms []*dto.Metric, value func(*dto.Metric) float64) []float64 {
	at := make(map[string]int)
	var out []float64
	for _, m := range ms {
		k := key(m, "tp_rank", "pp_rank", "moe_ep_rank")
		if i, ok := at[k]; ok {
			out[i] = max(out[i], value(m))
			continue
		}
		at[k] = len(out)
		out = append(out, value(m))
	}
	return out
}

func referenceCount(mf *dto.MetricFamily, models map[string]bool) int32 {
	for _, m := range mf.GetMetric() {
		if v, _ := label(m, modelLabel); v != "" && usable([]byte(v)) {
			models[v] = true
		}
	}
	for _, m := range mf.GetMetric() {
		if v := number(m); math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return Unknown
		}
	}
	ms := newestOf(mf)
	total := 0.0
	for _, v := range perEngine(ms, number) {
		total += v
	}
	return int32(min(math.Round(total), math.MaxInt32))
}

func referenceUsage(mf *dto.MetricFamily) float32 {
	for _, m := range mf.GetMetric() {
		if v := number(m); math.IsNaN(v) || math.IsInf(v, 0) {
			return Unknown
		}
	}
	total := 0.0
	vs := perEngine(newestOf(mf), func(m *dto.Metric) float64 { return min(max(number(m), 0), 1) })
	for _, v := range vs {
		total += v
	}
	return float32(total / float64(len(vs)))
}

func label(m *dto.Metric, name string) (string, bool) {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue(), true
		}
	}
	return "", false
}

func referenceBlocks(mf *dto.MetricFamily) (size, count uint32) {
	of := func(name string) []*dto.Metric {
		return slices.DeleteFunc(newestOf(mf), func(m *dto.Metric) bool {
			v, _ := label(m, name)
			_, ok := natural([]byte(v))
			return !ok
		})
	}
	value := func(name string) func(*dto.Metric) float64 {
		return func(m *dto.Metric) float64 {
			v, _ := label(m, name)
			n, _ := natural([]byte(v))
			return float64(n)
		}
	}
	for _, v := range perEngine(of("block_size"), value("block_size")) {
		size = max(size, uint32(v))
	}
	total := 0.0
	for _, v := range perEngine(of("num_gpu_blocks"), value("num_gpu_blocks")) {
		total += v
	}
	return size, uint32(min(total, math.MaxUint32))
}

func referenceAdapters(mf *dto.MetricFamily) *Adapters {
	newest := make(map[string]*dto.Metric)
	for _, m := range mf.GetMetric() {
		_, ok1 := label(m, runningLabel)
		_, ok2 := label(m, waitingLabel)
		if !ok1 && !ok2 || math.IsNaN(number(m)) {
			continue
		}
		k := key(m, runningLabel, waitingLabel, maxLabel, "tp_rank", "pp_rank", "moe_ep_rank")
		if old := newest[k]; old == nil || number(m) > number(old) {
			newest[k] = m
		}
	}
	if len(newest) == 0 {
		return nil
	}
	a := &Adapters{}
	for _, m := range newest {
		r, _ := label(m, runningLabel)
		w, _ := label(m, waitingLabel)
		most, _ := label(m, maxLabel)
		a.Running = appendNames(a.Running, []byte(r))
		a.Waiting = appendNames(a.Waiting, []byte(w))
		if n, ok := natural([]byte(strings.TrimSpace(most))); ok && n < 1<<16 {
			a.Max += n
		}
	}
	a.Running, a.Waiting = distinct(a.Running), distinct(a.Waiting)
	var only []string
	for _, w := range a.Waiting {
		if !slices.Contains(a.Running, w) {
			only = append(only, w)
		}
	}
	a.Waiting = only
	return a
}
