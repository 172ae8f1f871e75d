package token

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pieces(text string) []string {
	var out []string
	for len(text) > 0 {
		n := Len(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"less than a token", "ab", []string{"ab"}},
		{"four bytes each", "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{"a newline begins a token", "ab\ncdefg\n\nh", []string{"ab", "\ncde", "fg", "\n", "\nh"}},
		{"bytes, not characters", "aé×中", []string{"aé\xc3", "\x97中"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, pieces(c.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := len(AppendText(nil, c.text)); got != len(c.want) {
				t.Errorf("%d tokens, want %d", got, len(c.want))
			}
		})
	}
}

// The ids are the same in every process and version: recorded conversations depend on it.
func TestGolden(t *testing.T) {
	got := AppendShut(AppendText(AppendOpen(nil, "user"), "Hello, world"))
	want := []Token{1, 2118961174, 2, 1412715230, 1403337788, 1052069312, 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if got, want := Text(1, 6, Sentence), "Atam lih veh rus nij bod"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}

func TestAnswersAreTheirOwnTokens(t *testing.T) {
	for _, c := range []struct {
		name   string
		head   Head
		before string // what stands before the answer in the next prompt
	}{
		{"chat", Sentence, ""},
		{"completion after any text", Line, "some prompt of odd length."},
		{"words", Word, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := AppendAnswer(AppendText(nil, c.before), 42, 50, c.head)
			got := AppendText(nil, c.before+Text(42, 50, c.head))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-answer +quoted):\n%s", diff)
			}
		})
	}
	if Text(1, 10, Sentence) == Text(2, 10, Sentence) {
		t.Error("two seeds, one answer")
	}
}

func TestMedia(t *testing.T) {
	a, b := AppendMedia(nil, []byte("image a")), AppendMedia(nil, []byte("image b"))
	if len(a) != MediaTokens || len(b) != MediaTokens {
		t.Fatalf("%d and %d tokens, want %d", len(a), len(b), MediaTokens)
	}
	if a[0] == b[0] {
		t.Error("two images with the same first token")
	}
	if !slices.Equal(a, AppendMedia(nil, []byte("image a"))) {
		t.Error("one image with different tokens")
	}
}

func TestSumDependsOnOrder(t *testing.T) {
	if Sum([]Token{1, 2}) == Sum([]Token{2, 1}) {
		t.Error("order is lost")
	}
}

func FuzzAppendingKeepsTokens(f *testing.F) {
	f.Add("abc", "def")
	f.Add("line\n", "\nline")
	f.Add("é", "中文\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		before, after := AppendText(nil, a), AppendText(nil, a+b)
		if len(before) > 0 && !slices.Equal(before[:len(before)-1], after[:len(before)-1]) {
			t.Errorf("%q changed tokens before the last of %q", b, a)
		}
		if n, most := len(after), (len(a+b)+Size-1)/Size+strings.Count(a+b, "\n"); n > most {
			t.Errorf("%d tokens for %d bytes", n, len(a+b))
		}
		if strings.Join(pieces(a+b), "") != a+b {
			t.Error("pieces do not make up the text")
		}
		for _, id := range after {
			if id < specials || id >= 1<<31 {
				t.Errorf("id %d", id)
			}
		}
	})
}

func BenchmarkAppendText(b *testing.B) {
	text := Text(1, 2048, Word)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	dst := make([]Token, 0, 4096)
	for b.Loop() {
		dst = AppendText(dst[:0], text)
	}
}
