package kittest

import (
	"testing"
	"time"
)

func TestPollGivesUp(t *testing.T) {
	calls := 0
	if poll(30*time.Millisecond, func() bool { calls++; return false }) {
		t.Error("poll reports success although f never returned true")
	}
	if calls < 2 {
		t.Errorf("f was called %d times, want several", calls)
	}
}
