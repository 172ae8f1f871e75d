package scrape

import (
	"math"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	c := DefaultConfig()
	c.Interval, c.MaxShare, c.Jitter, c.MaxPageBytes, c.ModelList.Retry = 0, math.NaN(), 1, 1, -1
	err := c.Validate()
	for _, want := range []string{"interval: must be", "maxShare: must be", "jitter: must be", "maxPageBytes: must be", "modelList.retry: must be"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
