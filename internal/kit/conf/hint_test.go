package conf

import "testing"

func TestHint(t *testing.T) {
	known := []string{"hashBlockSize", "maxBlocks", "ttl", "x"}
	for got, want := range map[string]string{
		"hashBlokSize": "did you mean hashBlockSize?",
		"MAXBLOCKS":    "did you mean maxBlocks?",
		"maxbl0cks":    "did you mean maxBlocks?",
		"tll":          "did you mean ttl?",
		"temperature":  "known here: hashBlockSize, maxBlocks, ttl, x",
		"y":            "known here: hashBlockSize, maxBlocks, ttl, x", // as far from x as a word can be
		"":             "known here: hashBlockSize, maxBlocks, ttl, x",
	} {
		if h := Hint(got, known); h != want {
			t.Errorf("%q: %q, want %q", got, h, want)
		}
	}
	if h := Hint("pool", nil); h != "there are no settings here" {
		t.Errorf("nothing known: %q", h)
	}
}

func TestNearest(t *testing.T) {
	for name, c := range map[string]struct {
		got   string
		known []string
		want  string
	}{
		"the nearer of two":     {"queue-scorer", []string{"kv-cache-scorer", "queue-scorers"}, "queue-scorers"},
		"the first of equals":   {"ab", []string{"ac", "ad"}, "ac"},
		"nothing like it":       {"queue-scorer", []string{"prefix"}, ""},
		"nothing known":         {"queue-scorer", nil, ""},
		"the same":              {"queue-scorer", []string{"queue-scorer"}, "queue-scorer"},
		"only the case differs": {"QUEUE-scorer", []string{"queue-scorer"}, "queue-scorer"},
	} {
		if near := Nearest(c.got, c.known); near != c.want {
			t.Errorf("%s: %q, want %q", name, near, c.want)
		}
	}
}
