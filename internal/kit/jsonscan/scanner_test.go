package jsonscan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

var samples = []string{
	``, ` `, `{}`, `[]`, ` {} `, `{"a":1}`, `{"a":{"b":[1,2,{"c":null}]},"d":true}`, `[true,false,null]`,
	`"x"`, `12`, `-0`, `-0.5e+10`, `01`, `1.`, `.5`, `1e`, `1e+`, `-`, `+1`, `1 2`, `{"a":1}{`, `{"a":1},`,
	`{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{"a",1}`, `[1}`, `{"a":1]`,
	`nul`, `nulll`, `tru`, `truE`, `falsey`, `NaN`, `Infinity`, `'a'`, "\ufeff{}",
	`"\n\t\b\f\r\/\\\""`, `"\x"`, `"\u12"`, `"\u12G4"`, `"\u0041\u00e9\u20ac\ud83d\ude00"`,
	`"\ud83d"`, `"\ud83d\u0041"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\ude00\ude00"`, `"\uD83Dx\uDE00"`,
	"\"a\nb\"", "\"a\x00b\"", "\"a\x7fb\"", "\"\xff\xfe\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"", `"abcdefgh"`, `"abcdefg\\"`, `"x`, `"x\`, `"x\u00`,
	`{"k\u0065y":"v"}`, `{"` + strings.Repeat("k", 300) + `":"` + strings.Repeat("v", 300) + `"}`,
	"\t[\r\n1\t,\n2 ]\r", `{"":""}`, `[[[[[[]]]]]]`, `{"é":"日本語×Δ°∆"}`,
}

type seen struct {
	Kind       jsonscan.Kind
	Start, End int64
	Depth      int
	Text       string
}

// scan reads text in chunks that end at the cuts.
func scan(text string, depth int, cuts ...int) ([]seen, error) {
	var s jsonscan.Scanner
	s.Reset(depth)
	var all []seen
	last := 0
	for _, cut := range append(cuts, len(text)) {
		s.Feed([]byte(text[last:cut]))
		last = cut
		for s.Next() {
			t := &s.Token
			v := seen{Kind: t.Kind, Start: t.Start, End: t.End, Depth: t.Depth}
			raw := text[t.Start:t.End]
			if t.Bytes != nil && string(t.Bytes) != raw {
				return nil, fmt.Errorf("token %+v hands out %q, the input has %q", v, t.Bytes, raw)
			}
			if t.Bytes == nil && t.Kind >= jsonscan.Key && len(raw) <= 256 {
				return nil, fmt.Errorf("token %+v was not handed out", v)
			}
			v.Text = raw
			if t.Kind == jsonscan.Key || t.Kind == jsonscan.String {
				v.Text = string(jsonscan.AppendUnescaped(nil, []byte(raw)))
				if t.Escaped != strings.Contains(raw, `\`) {
					return nil, fmt.Errorf("token %+v: escaped %v", v, t.Escaped)
				}
				if int64(len(raw)-len(v.Text)) != t.Shrink {
					return nil, fmt.Errorf("token %+v: shrink %d of %q to %q", v, t.Shrink, raw, v.Text)
				}
			}
			all = append(all, v)
		}
	}
	return all, s.End()
}

// check compares a scanner with encoding/json, whole and cut at one place.
func check(t *testing.T, text string) {
	t.Helper()
	const depth = 64
	whole, err := scan(text, depth)
	deep := errors.Is(err, jsonscan.ErrTooDeep)
	if deep != (nesting(text) > depth && (deep || json.Valid([]byte(text)))) {
		t.Fatalf("%q: too deep %v, nesting %d", text, deep, nesting(text))
	}
	if !deep && (err == nil) != json.Valid([]byte(text)) {
		t.Fatalf("%q: error %v, encoding/json says %v", text, err, json.Valid([]byte(text)))
	}
	var bad *jsonscan.SyntaxError
	if err != nil && !deep && !errors.As(err, &bad) {
		t.Fatalf("%q: error of type %T", text, err)
	}
	for cut := 0; cut <= len(text); cut++ {
		if len(text) > 400 && cut%37 != 0 {
			continue
		}
		parts, cutErr := scan(text, depth, cut)
		if fmt.Sprint(cutErr) != fmt.Sprint(err) {
			t.Fatalf("%q cut at %d: %v, whole: %v", text, cut, cutErr, err)
		}
		if diff := cmp.Diff(whole, parts); diff != "" {
			t.Fatalf("%q cut at %d (-whole +cut):\n%s", text, cut, diff)
		}
	}
	if err == nil {
		checkStrings(t, text, whole)
	}
}

// checkStrings compares the strings with those that encoding/json reads.
func checkStrings(t *testing.T, text string, got []seen) {
	t.Helper()
	var want []string
	d := json.NewDecoder(strings.NewReader(text))
	for {
		tok, err := d.Token()
		if err != nil {
			break
		}
		if s, ok := tok.(string); ok {
			want = append(want, s)
		}
	}
	var have []string
	for _, v := range got {
		if v.Kind == jsonscan.Key || v.Kind == jsonscan.String {
			have = append(have, perByte(v.Text))
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("%q: strings (-encoding/json +scanner):\n%s", text, diff)
	}
}

// perByte replaces each invalid byte, as encoding/json does.
func perByte(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

// nesting is the deepest nesting before the input stops making sense; it ignores
// brackets in strings.
func nesting(text string) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func TestAgainstEncodingJSON(t *testing.T) {
	for _, text := range samples {
		t.Run("", func(t *testing.T) { check(t, text) })
	}
}

func FuzzScanner(f *testing.F) {
	for _, text := range samples {
		f.Add(text)
	}
	f.Add(strings.Repeat("[", 70) + strings.Repeat("]", 70))
	f.Fuzz(check)
}

func TestTokens(t *testing.T) {
	got, err := scan(` {"a" : [1, "x\n"], "b":{}} `, 8)
	if err != nil {
		t.Fatal(err)
	}
	want := []seen{
		{jsonscan.ObjectBegin, 1, 2, 0, "{"},
		{jsonscan.Key, 3, 4, 1, "a"},
		{jsonscan.ArrayBegin, 8, 9, 1, "["},
		{jsonscan.Number, 9, 10, 2, "1"},
		{jsonscan.String, 13, 16, 2, "x\n"},
		{jsonscan.ArrayEnd, 17, 18, 1, "]"},
		{jsonscan.Key, 21, 22, 1, "b"},
		{jsonscan.ObjectBegin, 24, 25, 1, "{"},
		{jsonscan.ObjectEnd, 25, 26, 1, "}"},
		{jsonscan.ObjectEnd, 26, 27, 0, "}"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestSkip(t *testing.T) {
	var s jsonscan.Scanner
	s.Reset(8)
	s.Feed([]byte(`{"a":{"x":[1,{"y":"]}"}]},"b":[[],[]],"c":1}`))
	var got []string
	for s.Next() {
		got = append(got, fmt.Sprint(s.Token.Kind, string(s.Token.Bytes)))
		if s.Token.Begins() && s.Token.Depth == 1 {
			s.Skip()
		}
	}
	want := []string{"1", "5a", "1", "2", "5b", "3", "4", "5c", "71", "2"}
	if diff := cmp.Diff(want, got); diff != "" || s.End() != nil {
		t.Fatal(s.End(), diff)
	}
}

func TestSkipStillChecks(t *testing.T) {
	for _, text := range []string{`{"a":[1,,2]}`, `{"a":["` + "\n" + `"]}`, `{"a":[[[[[[[[1]]]]]]]]}`, `{"a":[`} {
		var s jsonscan.Scanner
		s.Reset(4)
		s.Feed([]byte(text))
		for s.Next() {
			if s.Token.Begins() && s.Token.Depth == 1 {
				s.Skip()
			}
		}
		if s.End() == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// B231: deep nesting is refused with a bounded stack.
func TestB231DeepNesting(t *testing.T) {
	for _, n := range []int{65, 1_000, 1_000_000} {
		text := `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
		if _, err := scan(text, 64); !errors.Is(err, jsonscan.ErrTooDeep) {
			t.Errorf("depth %d: %v", n, err)
		}
		objects := strings.Repeat(`{"a":`, n)
		if _, err := scan(objects, 64); !errors.Is(err, jsonscan.ErrTooDeep) {
			t.Errorf("%d objects: %v", n, err)
		}
	}
	if _, err := scan(strings.Repeat("[", 64)+strings.Repeat("]", 64), 64); err != nil {
		t.Errorf("depth 64: %v", err)
	}
}

func TestIs(t *testing.T) {
	var s jsonscan.Scanner
	s.Reset(2)
	s.Feed([]byte(`["model","mod\u0065l","mode","models"]`))
	var got []bool
	for s.Next() {
		if s.Token.Scalar() {
			got = append(got, s.Token.Is("model"))
		}
	}
	if diff := cmp.Diff([]bool{true, true, false, false}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestErrorsDoNotQuoteTheInput(t *testing.T) {
	_, err := scan(`{"messages":"MARKER`+"\n"+`MARKER"}`, 8)
	if err == nil || strings.Contains(err.Error(), "MARKER") {
		t.Fatal(err)
	}
}

func BenchmarkScanner(b *testing.B) {
	for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
		for name, text := range map[string]string{
			"plain": strings.Repeat("the quick brown fox ", size/20),
			"lines": strings.Repeat(`the quick brown fox jumps over the lazy dog and so on.\n`, size/56),
			"ascii": strings.Repeat(`\u65e5\u672c`, size/12),
		} {
			body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}],"stream":true}`)
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				var s jsonscan.Scanner
				for b.Loop() {
					s.Reset(128)
					s.Feed(body)
					for s.Next() {
						_ = s.Token.Kind
					}
					if s.End() != nil {
						b.Fatal(s.Err())
					}
				}
			})
		}
	}
}
