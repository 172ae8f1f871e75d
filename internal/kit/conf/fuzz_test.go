package conf_test

import (
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// FuzzParse: whatever the text, Parse returns: it accepts it or names faults, each on a line of its own.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "pool: blue\nlisten: {address: ':1', max: 3}", "a: &a [*a]", "free: &a {b: *a}", "<<: {pool: x}", "? [a]\n: b",
		"targets:\n- &t {target: x}\n- <<: [*t, *t]", "--- a\n--- b", "\xff\xfe", "pool: !!binary aGk=", "raw: &r {<<: *r}",
		"scorers: {kv: {timeout: 1h}}", "timeout: 1\nwait: 2", "lists: {a: [1, .nan, 1e999]}", "log: &l {<<: *l}", "%YAML 9.9\n---\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := defaults()
		if err := conf.Parse("x.yaml", []byte(text), &s); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "x.yaml") && !strings.HasPrefix(line, "and ") {
					t.Errorf("fault %q does not say where", line)
				}
			}
		}
	})
}

// FuzzSet: an override is refused or accepted, and a text arrives as it was given.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"blue", "[::1]:80", "a: b", "'x'", "*a", "# c", "", "--- x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		s := defaults()
		if err := conf.Load("", []string{"pool=" + value}, &s); err != nil {
			t.Fatalf("a string was refused: %v", err)
		}
		if s.Pool != value && !strings.ContainsAny(value, `'"`) {
			t.Errorf("pool = %q, want %q", s.Pool, value)
		}
		_ = conf.Load("", []string{value}, &s)
		_ = conf.Load("", []string{"free=" + value}, &s)
	})
}
