package answer_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/answer"
)

// cutAt splices an answer that comes in pieces of n bytes.
func cutAt(n int, cached int64, details string, events bool, in string) (string, int) {
	s := answer.NewSplicer(cached, details, events)
	var out []byte
	for p := []byte(in); len(p) > 0; {
		k := min(n, len(p))
		out = s.Splice(out, bytes.Clone(p[:k])) // what was given must not be kept
		p = p[k:]
	}
	return string(s.End(out)), s.Changed()
}

func TestCachedTokens(t *testing.T) {
	const chat, responses = "prompt_tokens_details", "input_tokens_details"
	tests := []struct {
		name     string
		details  string
		events   bool
		in, want string
		changed  int
	}{
		{"E22 replaced", chat, false, `{"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":49},"total_tokens":60}}`, `{"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7},"total_tokens":60}}`, 1},
		{"white space", chat, false, "{ \"usage\" : { \"prompt_tokens_details\" :\n { \"cached_tokens\" :\t49 } } }", "{ \"usage\" : { \"prompt_tokens_details\" :\n { \"cached_tokens\" :\t7 } } }", 1},
		{"E23 details without it", chat, false, `{"usage":{"prompt_tokens_details":{}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"details with others", chat, false, `{"usage":{"prompt_tokens_details":{"audio_tokens":1 }}}`, `{"usage":{"prompt_tokens_details":{"audio_tokens":1 ,"cached_tokens":7}}}`, 1},
		{"E23 no details", chat, false, `{"usage":{"prompt_tokens":50}}`, `{"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"null details", chat, false, `{"usage":{"prompt_tokens_details":null,"a":1}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":7},"a":1}}`, 1},
		{"null", chat, false, `{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"a string", chat, false, `{"usage":{"prompt_tokens_details":{"cached_tokens":"49"}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"empty usage", chat, false, `{"usage":{}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"usage null", chat, false, `{"usage":null,"choices":[]}`, `{"usage":null,"choices":[]}`, 0},
		{"usage elsewhere", chat, false, `{"choices":[{"usage":{}}],"x":{"usage":{"prompt_tokens_details":{"cached_tokens":1}}}}`, `{"choices":[{"usage":{}}],"x":{"usage":{"prompt_tokens_details":{"cached_tokens":1}}}}`, 0},
		{"big numbers and escapes", chat, false, `{"id":9007199254740993,"t":"\u003c\n","usage":{"prompt_tokens":1.0}}`, `{"id":9007199254740993,"t":"\u003c\n","usage":{"prompt_tokens":1.0,"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"responses", responses, false, `{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8}}}`, `{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":7}}}`, 1},
		{"not JSON", chat, false, `<html>{"usage":{}}`, `<html>{"usage":{}}`, 0},
		{"cut short", chat, false, `{"usage":{"prompt_tokens_details":{"cached_tokens":4`, `{"usage":{"prompt_tokens_details":{"cached_tokens":4`, 0},
		{"nothing", chat, false, ``, ``, 0},
		{
			"E25 event", chat, true,
			"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"prompt_tokens_details\":{\"cached_tokens\":49}}}\n\ndata: [DONE]\n\n",
			"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\ndata: [DONE]\n\n", 1,
		},
		{"E28 other lines", chat, true, "event: ping\r\n: \"usage\"\ndata: not-json\n\ndata: [DONE]\n\n", "event: ping\r\n: \"usage\"\ndata: not-json\n\ndata: [DONE]\n\n", 0},
		{"E29 last line without an end", chat, true, `data:{"usage":{"prompt_tokens_details":{"cached_tokens":49}}}`, `data:{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}`, 1},
		{"usage in every event", chat, true, "data: {\"usage\":{}}\ndata: {\"usage\":{}}\r\n\r\n", "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":7}}}\ndata: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":7}}}\r\n\r\n", 2},
		{"B039 usage in the response", responses, true, "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9}}}\n\n", "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":7}}}}\n\n", 1},
		{"cut short in an event", chat, true, "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":4\n\ndata: {}\n\n", "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":4\n\ndata: {}\n\n", 0},
		{"B051 long line", chat, true, "data: {\"x\":\"" + strings.Repeat("y", 1500000) + "\",\"usage\":{}}\n\n", "data: {\"x\":\"" + strings.Repeat("y", 1500000) + "\",\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\n", 1},
		{"white space without end", chat, false, `{"usage":{"prompt_tokens_details":{"cached_tokens":` + strings.Repeat(" ", 300) + `49}}}`, "", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sizes := []int{1, 2, 3, 5, 7, 16, 4096, 32 << 10, len(tt.in) + 1}
			if len(tt.in) > 1000 {
				sizes = sizes[4:]
			}
			for _, n := range sizes {
				got, changed := cutAt(n, 7, tt.details, tt.events, tt.in)
				if tt.changed < 0 { // held back for too long in small pieces: it passes as it is
					if n == 16 && got != tt.in {
						t.Errorf("in pieces of %d: %q", n, got)
					}
					continue
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("in pieces of %d (-want +got):\n%s", n, diff)
				}
				if changed != tt.changed {
					t.Errorf("in pieces of %d: %d changed, want %d", n, changed, tt.changed)
				}
			}
		})
	}
}

// E26: the reference holds a line back until it is whole. Here bytes pass as they come,
// but for a number that is to be changed; what the client has in the end is the same.
func TestE26NothingIsHeldButTheNumber(t *testing.T) {
	s := answer.NewSplicer(7, "prompt_tokens_details", true)
	for _, step := range []struct{ in, out string }{
		{"da", "da"},
		{`ta: {"usage":{"prompt_tokens_details":{"cached_tokens`, `ta: {"usage":{"prompt_tokens_details":{"cached_tokens`},
		{`":`, ""}, {"4", ""}, {"9", ""},
		{"}", `":7}`}, {"}}\n", "}}\n"},
	} {
		if got := string(s.Splice(nil, []byte(step.in))); got != step.out {
			t.Errorf("after %q: %q, want %q", step.in, got, step.out)
		}
	}
}

// FuzzSplicer checks that JSON stays the same JSON but for the number, however it is cut,
// and that everything else passes as it is.
func FuzzSplicer(f *testing.F) {
	for _, s := range []string{
		`{"usage":{"prompt_tokens_details":{"cached_tokens":49}}}`, `{"usage":{"prompt_tokens_details":null}}`, `{"usage":{}}`,
		"data: {\"usage\":{}}\n\ndata: [DONE]\n\n", `{"response":{"usage":{"a":[]}}}`, `[1]`, `17`, "data:\ndata: {\n",
		`{"usage":{"prompt_tokens_details":{"cached_tokens":{}},"prompt_tokens_details":{}}}`,
	} {
		f.Add([]byte(s), uint8(3), false)
		f.Add([]byte(s), uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, n uint8, events bool) {
		whole, changed := cutAt(len(in)+1, 7, "prompt_tokens_details", events, string(in))
		pieces, also := cutAt(int(n)+1, 7, "prompt_tokens_details", events, string(in))
		held := bytes.Contains(in, bytes.Repeat([]byte(" "), 100)) || len(in) > 4096
		if !held && (whole != pieces || changed != also) && !longValue(in) {
			t.Fatalf("in one piece %q, in pieces of %d %q", whole, n, pieces)
		}
		if changed == 0 && whole != string(in) {
			t.Fatalf("nothing was changed, and %q has become %q", in, whole)
		}
		if !events && json.Valid(in) && !json.Valid([]byte(whole)) {
			t.Fatalf("%q has become %q", in, whole)
		}
	})
}

// longValue is true for input in which a scalar or white space may be longer than what
// is held back.
func longValue(in []byte) bool { return len(in) > 256 }
