package epconfig

import (
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// fullAt is how full a configuration's detector takes the pods to be.
func fullAt(value float64, saturated bool, pods ...routetest.Pod) func(t *testing.T, l *Loaded) {
	return func(t *testing.T, l *Loaded) {
		t.Helper()
		c := routetest.Cycle(t, &route.Request{Headers: route.NoHeaders{}}, pods...)
		v, full := l.Config.Detector.Saturation(c, routetest.Positions(len(pods)))
		if v-value > 1e-6 || value-v > 1e-6 || full != saturated {
			t.Errorf("saturation %v, saturated %v, want %v, %v", v, full, value, saturated)
		}
		again, err := Load("again", l.Effective, Deps{Scorers: &scorers{}})
		if err != nil {
			t.Fatalf("the effective configuration does not load: %v\n%s", err, l.Effective)
		}
		if v2, full2 := again.Config.Detector.Saturation(c, routetest.Positions(len(pods))); v2 != v || full2 != full {
			t.Errorf("the effective configuration's says %v, %v\n%s", v2, full2, l.Effective)
		}
	}
}

func TestSaturationDetectors(t *testing.T) {
	full, free := routetest.Pod{Waiting: 20, KV: .1}, routetest.Pod{Waiting: 1, KV: .4}
	plugin := func(typ, parameters, rest string) string {
		return queue + "- type: " + typ + "\n  parameters: " + parameters + "\n" + rest
	}
	ref := func(name string) string { return "saturationDetector: {pluginRef: " + name + "}\n" }
	many := routetest.Pod{InFlight: 8}
	for _, c := range []struct {
		id, text string
		want     want
	}{
		{"no section: room somewhere is room", queue, want{check: fullAt(.5, false, full, free)}},
		{"no section: no room", queue, want{check: fullAt(4, true, full, full)}},
		{"empty section", queue + "saturationDetector: {}\n", want{check: fullAt(.5, false, full, free)}},
		{"thresholds", queue + "saturationDetector: {queueDepthThreshold: 2, kvCacheUtilThreshold: 0.5, metricsStalenessThreshold: 10s}\n", want{check: fullAt(.8, false, full, free)}},
		{"a newer one: the mean", plugin("utilization-detector", "{}", ref("utilization-detector")), want{check: fullAt(2.25, true, full, free)}},
		{"H22 {} ok", plugin("utilization-detector", "{}", ref("utilization-detector")), want{check: fullAt(4, true, full)}},
		{"parameters in another case", plugin("utilization-detector", "{QueueDepthThreshold: 40}", ref("utilization-detector")), want{check: fullAt(.5, false, full, free)}},
		{"concurrency", plugin("concurrency-detector", "{maxConcurrency: 4}", ref("concurrency-detector")), want{check: fullAt(1, true, many, routetest.Pod{})}},
		{"the concurrency detector that is named is no filter of a profile of everything", plugin("concurrency-detector", "{}", ref("concurrency-detector")), want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"nor if the name is merged in", plugin("concurrency-detector", "{}", "saturationDetector: {<<: {pluginRef: concurrency-detector}}\n"), want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"one that is not is", plugin("concurrency-detector", "{}", ""), want{check: shaped("default: concurrency-detector | queue-scorer×1 | max-score-picker(1)")}},
		{"no detector", queue + "- type: low-queue-filter\n" + ref("low-queue-filter"), want{errs: []string{`saturationDetector.pluginRef: plug-in "low-queue-filter" is a filter (low-queue-filter), which cannot tell whether endpoints are full; there is utilization-detector and concurrency-detector`}}},
		{"both spellings", plugin("utilization-detector", "{}", "saturationDetector: {pluginRef: utilization-detector, queueDepthThreshold: 5}\n"), want{errs: []string{"names a plug-in besides thresholds"}}},
		{"misspelt threshold", queue + "saturationDetector: {queueDephtThreshold: 5}\n", want{errs: []string{`did you mean "queueDepthThreshold"`}}},
		{"headroom is of filters", queue + "saturationDetector: {headroom: 0.1}\n", want{errs: []string{"headroom"}}},
		{"H22 q 0", plugin("utilization-detector", "{queueDepthThreshold: 0}", ""), want{errs: []string{"parameters.queueDepthThreshold: must be at least 1, not 0"}}},
		{"H10 q -1", queue + "saturationDetector: {queueDepthThreshold: -1}\n", want{errs: []string{"saturationDetector.queueDepthThreshold: must be at least 1, not -1"}}},
		{"H22 kv 1.5", plugin("utilization-detector", "{kvCacheUtilThreshold: 1.5}", ""), want{errs: []string{"kvCacheUtilThreshold: must be above 0 and at most 1, not 1.5"}}},
		{"H22 kv 0", queue + "saturationDetector: {kvCacheUtilThreshold: 0}\n", want{errs: []string{"saturationDetector.kvCacheUtilThreshold: must be above 0"}}},
		{"H22 staleness 0s", plugin("utilization-detector", "{metricsStalenessThreshold: 0s}", ""), want{errs: []string{"metricsStalenessThreshold: must be above 0, not 0s"}}},
		{"staleness without a unit", queue + "saturationDetector: {metricsStalenessThreshold: 200}\n", want{errs: []string{"saturationDetector.metricsStalenessThreshold: must be a length of time such as 200ms, not the number 200"}}},
		{"H22 headroom -.5", plugin("utilization-detector", "{headroom: -0.5}", ""), want{errs: []string{"headroom: must be 0 or more, not -0.5"}}},
		{"H22 string type", plugin("utilization-detector", "{queueDepthThreshold: five}", ""), want{errs: []string{`queueDepthThreshold: must be a whole number, not the text "five"`}}},
		{"H22 headroom 2.0", plugin("utilization-detector", "{headroom: 2.0}", ""), want{warnings: []string{"exceeded by more than their double"}, check: shaped("default: utilization-detector | queue-scorer×1 | max-score-picker(1)")}},
		{"H35 max 0, tokens 0, headroom -.5, mode magic", plugin("concurrency-detector", "{maxConcurrency: 0, maxTokenConcurrency: 0, headroom: -0.5, concurrencyMode: magic}", ""), want{errs: []string{
			"maxConcurrency: must be at least 1", "maxTokenConcurrency: must be at least 1", "headroom: must be 0 or more", `concurrencyMode: must be requests or tokens, not "magic"`,
		}}},
		{"H35 string", plugin("concurrency-detector", "{maxConcurrency: many}", ""), want{errs: []string{"must be a whole number"}}},
		{"B120 flowControl with its gate off", queue + "flowControl: {maxRequests: 5}\n", want{warnings: []string{"flowControl: is ignored, since flowControl is not among the featureGates"}, check: fullAt(.5, false, full, free)}},
	} {
		t.Run(c.id, func(t *testing.T) { c.want.run(t, c.text) })
	}
}

// The effective text says what the built-in detector goes by.
func TestEffectiveTellsTheDetector(t *testing.T) {
	l, err := Load("t", []byte(queue), Deps{Scorers: &scorers{}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "saturationDetector:\n  queueDepthThreshold: 5\n  kvCacheUtilThreshold: 0.8\n"; !strings.HasSuffix(string(l.Effective), want) {
		t.Errorf("the effective configuration does not end with\n%s\nbut is\n%s", want, l.Effective)
	}
}
