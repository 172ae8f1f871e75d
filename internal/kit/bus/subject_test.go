package bus

import (
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"default", "default"},
		{"A-z_09", "A-z_09"},
		{strings.Repeat("n", 64), strings.Repeat("n", 64)},
		{"", "x_"},
		{"x_", "x_f1fg"},
		{"x", "x"},
		{"a.b", "x_c4n64"},
		{"*", "x_58"},
		{"Qwen/Qwen2.5-7B Instruct", "x_a5rmarhfa5rmarhi5oqiqdq2414mssrke9qm6t0"},
		{strings.Repeat("n", 65), "x_z3ovrdla5gvbgkuac0o52f1ke19csq7e3mlajd9r3d5dfgr21ntsg"},
	} {
		if got := Token(c.name); got != c.want {
			t.Errorf("Token(%q) = %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzToken(f *testing.F) {
	for i := range oddNames {
		f.Add(oddNames[i], oddNames[(i+1)%len(oddNames)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Token(a), Token(b)
		if (a == b) != (x == y) {
			t.Errorf("%q and %q have the tokens %q and %q", a, b, x, y)
		}
		if x == "" || strings.ContainsAny(x, ".*> \t\r\n\x00$") {
			t.Errorf("Token(%q) = %q", a, x)
		}
	})
}
