package fleet

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestOwnerMovesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		collectors := rapid.SliceOfNDistinct(rapid.StringMatching(`metrics-collector-[a-z0-9]{1,12}`), 2, 6, rapid.ID[string]).Draw(t, "collectors")
		leaver := rapid.SampledFrom(collectors).Draw(t, "leaver")
		var rest []string
		for _, c := range collectors {
			if c != leaver {
				rest = append(rest, c)
			}
		}
		for i := range 200 {
			id := ID(fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250))
			before, after := owner(id, collectors), owner(id, rest)
			if before != leaver && before != after {
				t.Fatalf("%s moved from %s to %s although %s left", id, before, after, leaver)
			}
			if shuffled := rapid.Permutation(collectors).Draw(t, "order"); owner(id, shuffled) != before {
				t.Fatalf("the owner of %s depends on the order of collectors", id)
			}
		}
	})
}

func TestOwnersShareEvenly(t *testing.T) {
	collectors := []string{"metrics-collector-a-00000001", "metrics-collector-b-00000002", "metrics-collector-c-00000003"}
	const n = 3000
	count := make(map[string]int)
	for i := range n {
		count[owner(ID(fmt.Sprintf("10.%d.%d.%d:8000", i/65536, i/256%256, i%256)), collectors)]++
	}
	for _, c := range collectors {
		if got := count[c]; got < n/3*8/10 || got > n/3*12/10 {
			t.Errorf("%s has %d of %d endpoints, want a third within 20 %%", c, got, n)
		}
	}
}
