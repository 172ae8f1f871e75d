package broadcast

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	c := DefaultConfig()
	c.Interval, c.DeadAfter = 0, c.HeartbeatInterval
	err := c.Validate()
	for _, want := range []string{"interval: must be at least 1ms", "deadAfter: must be at least two heartbeatIntervals"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
