package conf

import (
	"slices"
	"strings"
	"testing"
)

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
		"neighbours swapped":    {"abdc", []string{"abxx", "abcd"}, "abcd"},
		"part of it":            {"queue", []string{"kv-cache-scorer", "queue-scorer"}, "queue-scorer"},
		"a single letter":       {"x", []string{"x", "y"}, ""},
	} {
		if near := Nearest(c.got, c.known); near != c.want {
			t.Errorf("%s: %q, want %q", name, near, c.want)
		}
	}
}

func TestNear(t *testing.T) {
	known := []string{"low-queue-filter", "least-queue-filter", "queue-scorer", "random-picker", "queue-scorer"}
	for _, c := range []struct {
		limit int
		want  []string
	}{{0, nil}, {1, []string{"queue-scorer"}}, {3, []string{"queue-scorer"}}} {
		if got := Near("queue-scoer", known, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%d: %q, want %q", c.limit, got, c.want)
		}
	}
	if got, want := Near("queue-filter", known, 3), []string{"least-queue-filter", "low-queue-filter"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNearestOfPluginTypes(t *testing.T) {
	known := []string{"queue-scorer", "kv-cache-scorer", "prefix-cache-scorer", "low-queue-filter", "least-queue-filter"}
	for got, want := range map[string]string{
		"quue-scorer": "queue-scorer", "Queue-Scorer": "queue-scorer", "kv-cache-utilisation-scorer": "", "precise-prefix-cache-scorer": "prefix-cache-scorer",
		"qeueu-scorer": "queue-scorer", "zzz": "", "": "", "q": "", "least-que-filter": "least-queue-filter", strings.Repeat("x", 1000): "",
	} {
		if near := Nearest(got, known); near != want {
			t.Errorf("nearest to %.100q is %q, want %q", got, near, want)
		}
	}
}
