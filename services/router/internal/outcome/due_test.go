package outcome

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestPicksHurryOnlyForThoseWhoGoByThem(t *testing.T) {
	const others = 1
	for _, c := range []struct {
		name          string
		others, picks int
		ended         bool // all of them, before a batch took the picks
		toldBefore    bool // the picks went with the batch before
		since         time.Duration
		due, asleep   bool
	}{
		{name: "a pick that another router waits for", others: others, picks: 1, since: soonPause, due: true},
		{name: "the same within the pause", others: others, picks: 1, since: 0},
		{name: "a pick that nobody waits for", picks: 1, since: soonPause + time.Millisecond},
		{name: "the same after the longer pause", picks: 1, since: latePause, due: true},
		{name: "so many that sending them along costs more", picks: soonPicks, since: soonPause, due: true},
		{name: "ends, which nobody waits for", others: others, picks: 1, toldBefore: true, ended: true, since: soonPause + time.Millisecond},
		{name: "the same after the longer pause", others: others, picks: 1, toldBefore: true, ended: true, since: latePause, due: true},
		{name: "nothing, under load", others: others, since: soonPause},
		{name: "nothing for long", others: others, since: latePause, asleep: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := roster.New(roster.Config{})
			r.SetTable(testTable(t))
			b, err := bus.New(bus.DefaultConfig(), "test", "r", telemetry.Discard())
			if err != nil {
				t.Fatal(err)
			}
			l, err := New(r, b, nil, telemetry.Discard()) // nothing runs
			if err != nil {
				t.Fatal(err)
			}
			l.HurryFor(func() int { return c.others })
			n := &node{roster: r}
			for range c.picks {
				res := reserve(n, l, 0)
				if c.toldBefore {
					l.take(false)
				}
				if c.ended {
					res.Finish(true, route.NoUsage())
				}
			}
			wait := l.due(time.Now().Add(-c.since))
			if (wait <= 0) != c.due || l.asleep != c.asleep {
				t.Errorf("waits %v more, asleep %t; want due %t, asleep %t", wait, l.asleep, c.due, c.asleep)
			}
		})
	}
}
