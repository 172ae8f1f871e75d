package page

import "slices"

// Histogram counts observations in buckets.
type Histogram struct {
	bounds []float64 // upper bounds, ascending; the last bucket has none
	counts []uint64  // one more than bounds, not cumulative
	sum    float64
	count  uint64
}

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// Observe counts one value.
func (h *Histogram) Observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
	h.count++
}

// Count is the number of observations.
func (h *Histogram) Count() uint64 { return h.count }

// Sum is the sum of all observations.
func (h *Histogram) Sum() float64 { return h.sum }

// The bounds of vLLM's histograms, in seconds or tokens.
func requestBounds() []float64 {
	return []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
}

func tokenTimeBounds() []float64 {
	return []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
}

func firstTokenBounds() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

// The bounds of NixlConnector's histograms, in seconds, bytes and descriptors.
func transferBounds() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5}
}

func transferBytesBounds() []float64 {
	var bounds []float64
	for i := 11; i < 35; i += 2 {
		bounds = append(bounds, float64(int64(1)<<i))
	}
	return bounds
}

func transferBlocksBounds() []float64 {
	return []float64{10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000}
}

// tokenBounds are 1, 2, 5, 10, … up to the model's length, as vLLM makes them.
func tokenBounds(modelLen int) []float64 {
	var bounds []float64
	for decade := 1; ; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade > modelLen {
				return bounds
			}
			bounds = append(bounds, float64(m*decade))
		}
	}
}
