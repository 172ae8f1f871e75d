package httpproxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Who is to blame for prompts that do not arrive, as pairs fail and do well. An event is
// "p1-d1 fails", "p1-d1 works" or "d1 alone", after it had failed with p1; what is wanted is
// whom it shows.
func TestWhoIsToBlame(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   []string // per event
	}{
		{"one failure is nobody's", []string{"p1-d1 fails"}, []string{""}},
		{"again, and nothing else is known", []string{"p1-d1 fails", "p1-d1 fails"}, []string{"", ""}},
		{"two fetch from one in vain", []string{"p1-d1 fails", "p1-d2 fails"}, []string{"", "p1"}},
		{"one fetches from two in vain", []string{"p1-d1 fails", "p2-d1 fails"}, []string{"", "d1"}},
		{"another fetches from it", []string{"p1-d1 fails", "p1-d2 works"}, []string{"", "d1"}},
		{"it fetches from another", []string{"p1-d1 fails", "p2-d1 works"}, []string{"", "p1"}},
		{"it does well with nothing to fetch", []string{"p1-d1 fails", "p1-d1 alone"}, []string{"", "p1"}},
		{"it was for a moment", []string{"p1-d1 fails", "p1-d1 works", "p1-d2 works"}, []string{"", "", ""}},
		{"others say nothing of it", []string{"p1-d1 fails", "p2-d2 works", "p2-d2 fails"}, []string{"", "", ""}},
		{"who was found is not found again", []string{"p1-d1 fails", "p1-d2 fails", "p1-d3 works", "p2-d1 works"}, []string{"", "p1", "", ""}},
		{"both", []string{"p1-d2 fails", "p2-d1 fails", "p1-d1 fails"}, []string{"", "", "p1 d1"}},
		{"a bad one among many that prefill", []string{"p1-d1 fails", "p2-d1 fails", "p3-d1 fails", "p3-d2 works", "p1-d2 works"}, []string{"", "d1", "", "d1", ""}},
		{"alone, after another handover's failure", []string{"p1-d1 fails", "p2-d1 alone"}, []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s suspects
			var got []string
			for _, e := range c.events {
				names, how, _ := strings.Cut(e, " ")
				by, at, _ := strings.Cut(names, "-")
				p := handover{roster.ID(by), roster.ID(at)}
				var who []culprit
				switch how {
				case "fails":
					who = s.failed(p)
				case "works":
					who = s.worked(p)
				case "alone":
					who = s.alone(p)
				}
				var shown []string
				for _, w := range who {
					if w.prefill != (w.id[0] == 'p') {
						t.Errorf("%s: %s has another role", e, w.id)
					}
					shown = append(shown, string(w.id))
				}
				got = append(got, strings.Join(shown, " "))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// What was long ago counts no more, and nothing is kept of it.
func TestSuspicionPasses(t *testing.T) {
	var s suspects
	for i := range 100 {
		s.failed(handover{roster.ID(fmt.Sprintf("p%d", i)), roster.ID(fmt.Sprintf("d%d", i))})
	}
	for p := range s.pairs {
		s.pairs[p] = time.Now().Add(-2 * suspicion)
	}
	if who := s.worked(handover{"p7", "another"}); len(who) != 0 || len(s.pairs) != 0 || s.some.Load() {
		t.Errorf("blamed %v, %d are remembered", who, len(s.pairs))
	}
	if who := s.failed(handover{"p7", "another"}); slices.ContainsFunc(who, func(culprit) bool { return true }) {
		t.Errorf("blamed %v", who)
	}
}
