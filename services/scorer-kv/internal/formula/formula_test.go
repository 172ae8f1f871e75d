package formula

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestRoom(t *testing.T) {
	cases := []struct {
		name  string
		usage float64
		want  float32
	}{
		{"F3", .8, .2}, {"F3", .5, .5}, {"F3", 0, 1},
		{"F4", .6, .4}, {"F4", 1, 0},
		{"M11", 1.0 / 3, 2.0 / 3}, {"M11, kept in range", 1.2, 0}, {"M11, kept in range", -.1, 1},
	}
	for _, c := range cases {
		if got := Room(c.usage); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("%s: usage %v scores %v, want %v", c.name, c.usage, got, c.want)
		}
	}
}

func TestCredit(t *testing.T) {
	cases := map[string]struct {
		tokens      int64
		size, count uint32
		want        float64
	}{
		"nothing sent":                  {0, 16, 100, 0},
		"one token takes a block":       {1, 16, 100, .01},
		"a block exactly":               {16, 16, 100, .01},
		"a token more takes another":    {17, 16, 100, .02},
		"block size not known":          {1000, 0, 100, 0},
		"block count not known":         {1000, 16, 0, 0},
		"more than there is":            {1600, 16, 100, 1},
		"a count that ran below zero":   {-5, 16, 100, 0},
		"as many tokens as can be sent": {math.MaxInt64, math.MaxUint32, 1, math.MaxInt64/math.MaxUint32 + 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Credit(c.tokens, c.size, c.count); math.Abs(got-c.want) > 1e-9*max(1, c.want) {
				t.Errorf("credit %v, want %v", got, c.want)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	cases := map[string]struct {
		at   Adapters
		want float32
	}{
		"F9: another runs, it waits, 2 fit":          {Adapters{[]string{"other"}, []string{"it"}, 2}, .6},
		"F10: one runs, one waits, 2 fit, it is new": {Adapters{[]string{"other"}, []string{"another"}, 2}, 0},
		"F10: none fit":                       {Adapters{nil, nil, 0}, 0},
		"it runs":                             {Adapters{[]string{"other", "it"}, nil, 2}, 1},
		"it runs, beyond what fits":           {Adapters{[]string{"it"}, nil, 0}, 1},
		"there is room":                       {Adapters{[]string{"other"}, nil, 2}, .8},
		"it waits, and there is room (M9, b)": {Adapters{[]string{"other"}, []string{"it"}, 3}, .8},
		"it both runs and waits":              {Adapters{[]string{"it"}, []string{"it"}, 1}, 1},
		"M6: empty":                           {Adapters{nil, nil, 2}, .8},
		"names are compared whole, and in their case": {Adapters{[]string{"it2", "It"}, nil, 2}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.at.Place("it").Score(); got != c.want {
				t.Errorf("score %v, want %v", got, c.want)
			}
		})
	}
}

func TestScoresStayInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usage := rapid.Float64().Draw(t, "usage")
		tokens := rapid.Int64().Draw(t, "tokens")
		size, count := rapid.Uint32().Draw(t, "size"), rapid.Uint32().Draw(t, "count")
		got := Room(usage + Credit(tokens, size, count))
		if !(got >= 0 && got <= 1) {
			t.Fatalf("score %v", got)
		}
		if tokens < math.MaxInt64 && Room(usage+Credit(tokens+1, size, count)) > got {
			t.Fatal("one more token raises the score")
		}
	})
}
