package bus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTrackerFindsGaps(t *testing.T) {
	type seen struct {
		Publisher string
		Sequence  uint64
		After     time.Duration // since the message before
		Gap       uint64
		First     bool
		Late      bool
	}
	cases := []struct {
		name  string
		wants []seen
	}{
		{"from the beginning", []seen{
			{"a", 1, 0, 0, true, false},
			{"a", 2, 0, 0, false, false},
			{"a", 3, 0, 0, false, false},
		}},
		{"a late joiner does not call the past a gap", []seen{
			{"a", 100, 0, 0, true, false},
			{"a", 101, 0, 0, false, false},
		}},
		{"lost messages", []seen{
			{"a", 1, 0, 0, true, false},
			{"a", 3, 0, 1, false, false},
			{"a", 10, 0, 6, false, false},
			{"a", 11, 0, 0, false, false},
		}},
		{"publishers do not disturb each other", []seen{
			{"a", 1, 0, 0, true, false},
			{"b", 7, 0, 0, true, false},
			{"a", 2, 0, 0, false, false},
			{"b", 8, 0, 0, false, false},
		}},
		{"repeated and overtaken ones are late", []seen{
			{"a", 5, 0, 0, true, false},
			{"a", 5, 0, 0, false, true},
			{"a", 4, 0, 0, false, true},
			{"a", 6, 0, 0, false, false},
		}},
		{"remembered for a minute", []seen{
			{"a", 5, 0, 0, true, false},
			{"a", 7, 59 * time.Second, 1, false, false},
		}},
		{"forgotten after a minute", []seen{
			{"a", 5, 0, 0, true, false},
			{"a", 2, 60 * time.Second, 0, true, false},
		}},
		{"the largest sequence", []seen{
			{"a", 1, 0, 0, true, false},
			{"a", 1<<64 - 1, 0, 1<<64 - 3, false, false},
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var tr tracker
			now := time.Now()
			var got []seen
			for _, w := range c.wants {
				now = now.Add(w.After)
				m, late := tr.observe(w.Publisher, w.Sequence, now)
				if !m.Received.Equal(now) {
					t.Errorf("Received = %v, want %v", m.Received, now)
				}
				got = append(got, seen{w.Publisher, w.Sequence, w.After, m.Gap, m.First, late})
			}
			if diff := cmp.Diff(c.wants, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrackerForgetsSilentPublishers(t *testing.T) {
	var tr tracker
	now := time.Now()
	for i := range 1000 {
		tr.observe(NewPublisherID("router"), 1, now.Add(time.Duration(i)*time.Second))
	}
	if n := len(tr.publishers); n > 80 {
		t.Errorf("%d publishers are remembered, although only 60 were heard within a minute", n)
	}
}

func TestNoticesAreRare(t *testing.T) {
	var n notices
	now := time.Now()
	for _, step := range []struct {
		after       time.Duration
		topic, text string
		due         bool
	}{
		{0, "away", "refused", true},
		{time.Second, "away", "refused", false},
		{time.Second, "away", "timeout", true},
		{time.Second, "slow", "timeout", true},
		{29 * time.Second, "away", "timeout", true},
		{29 * time.Second, "away", "timeout", false},
	} {
		now = now.Add(step.after)
		if got := n.due(step.topic, step.text, now); got != step.due {
			t.Errorf("%+v: due = %t", step, got)
		}
	}
	n.forget("away")
	if !n.due("away", "timeout", now) {
		t.Error("a forgotten topic is not due")
	}
}
