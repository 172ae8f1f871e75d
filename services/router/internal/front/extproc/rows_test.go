package extproc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// B153: many requests at once without an id, or all with the same one. Each stream has
// its own prompt, body and reservation, also when what streams work with is used again.
func TestB153ManyStreamsWithOneID(t *testing.T) {
	for name, pairs := range map[string][]string{"no id": nil, "one id": {"x-request-id", "the-same"}} {
		t.Run(name, func(t *testing.T) {
			const streams, waves = 48, 3
			r := newRig(t)
			var want []string
			for wave := range waves {
				var all []*proxy
				prompt := func(i int) string { return fmt.Sprintf("%d-%d-%s", wave, i, strings.Repeat("x", 10_000)) }
				body := func(i int) string { return fmt.Sprintf(`{"model":"m","prompt":%q}`, prompt(i)) }
				for i := range streams {
					all = append(all, r.duplex())
					all[i].headers("POST", "/v1/completions", false, append([]string{"content-type", "application/json"}, pairs...)...)
					want = append(want, prompt(i))
				}
				// The halves of all bodies come mixed, and so do the answers.
				for i, p := range all {
					p.body(body(i)[:5000], false)
				}
				for i, p := range all {
					p.body(body(i)[5000:], true)
				}
				ids := make(map[string]bool)
				for i, p := range all {
					ids[p.to("192.168.1.1:8000").Set["x-request-id"]] = true
					p.same(body(i))
					p.answer(200, false)
				}
				if n := map[bool]int{true: streams, false: 1}[pairs == nil]; len(ids) != n {
					t.Errorf("%d ids were given to %d requests, want %d", len(ids), streams, n)
				}
				for i, p := range all {
					p.recv()
					p.answerBody(body(i), true)
				}
				for i, p := range all {
					p.same(body(i))
					p.stream.CloseSend()
				}
				r.ended("ok", streams*(wave+1))
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			got := slices.Clone(r.prompts)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" || len(r.reservations) != streams*waves {
				t.Errorf("%d reservations; prompts (-want +got):\n%.500s", len(r.reservations), diff)
			}
		})
	}
}
