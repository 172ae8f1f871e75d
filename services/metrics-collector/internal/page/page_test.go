package page

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line is a wanted line as the tests spell it.
type line struct {
	Name      string
	Labels    [][2]string
	Value     float64
	Timestamp float64
	Err       error
}

func scan(text string, names ...string) (lines []line) {
	var s Scanner
	s.Reset(NewIndex(names...), []byte(text))
	for s.Next() {
		l := line{Name: names[s.Name()]}
		sample, err := s.Sample()
		if l.Err = err; err == nil {
			l.Value, l.Timestamp = sample.Value, sample.Timestamp
			for _, label := range sample.Labels {
				l.Labels = append(l.Labels, [2]string{string(label.Name), string(label.Value)})
			}
		}
		lines = append(lines, l)
	}
	return lines
}

func TestScan(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []line
	}{
		"nothing":              {"", nil},
		"bare":                 {"a:b 1\n", []line{{Name: "a:b", Value: 1}}},
		"no newline":           {"x 2\na:b 1", []line{{Name: "a:b", Value: 1}}},
		"CR LF":                {"a:b 1\r\nother 2\r\na:b{l=\"v\"} 3\r\n", []line{{Name: "a:b", Value: 1}, {Name: "a:b", Labels: [][2]string{{"l", "v"}}, Value: 3}}},
		"comments":             {"# a:b 1\n#a:b 2\n# TYPE a:b gauge\n  # a:b 3\n", nil},
		"name goes on":         {"a:bc 1\na:b_total 2\na:b:c 3\na:b1 4\na: 5\na 6\n", nil},
		"other first byte":     {"za:b 1\n", nil},
		"indented":             {" \t a:b 1\n   \n\t", []line{{Name: "a:b", Value: 1}}},
		"blanks everywhere":    {"a:b\t{ l = \"v\" , m=\"w\" , }\t1 \t2 \n", []line{{Name: "a:b", Labels: [][2]string{{"l", "v"}, {"m", "w"}}, Value: 1, Timestamp: 2}}},
		"no blank after brace": {"a:b{l=\"v\"}1\n", []line{{Name: "a:b", Labels: [][2]string{{"l", "v"}}, Value: 1}}},
		"escapes":              {`a:b{l="q\"s\\n\nx",m="plain"} 1`, []line{{Name: "a:b", Labels: [][2]string{{"l", "q\"s\\n\nx"}, {"m", "plain"}}, Value: 1}}},
		"delimiters in value":  {`a:b{l="},{ # 7",m="a=b"} 1`, []line{{Name: "a:b", Labels: [][2]string{{"l", "},{ # 7"}, {"m", "a=b"}}, Value: 1}}},
		"exemplar":             {"a:b 1 # {t=\"x\"} 0.5 3\n", []line{{Name: "a:b", Value: 1}}},
		"exemplar after time":  {"a:b 1 2 # {t=\"x\"} 0.5\n", []line{{Name: "a:b", Value: 1, Timestamp: 2}}},
		"fractional time":      {"a:b 1 1739557565.5\n", []line{{Name: "a:b", Value: 1, Timestamp: 1739557565.5}}},
		"quoted name":          {`{"a:b",l="v"} 1` + "\n" + `{"other"} 2` + "\n" + ` { "a:b" } 3`, []line{{Name: "a:b", Labels: [][2]string{{"l", "v"}}, Value: 1}, {Name: "a:b", Value: 3}}},
		"quoted label":         {`{"a:b","l.x"="v"} 1`, []line{{Name: "a:b", Labels: [][2]string{{"l.x", "v"}}, Value: 1}}},
		"no value":             {"a:b\na:b \na:b{}\n", []line{{Name: "a:b", Err: errValue}, {Name: "a:b", Err: errValue}, {Name: "a:b", Err: errValue}}},
		"not a number":         {"a:b many\n", []line{{Name: "a:b", Err: errValue}}},
		"bad time":             {"a:b 1 soon\n", []line{{Name: "a:b", Err: errTimestamp}}},
		"more than a sample":   {"a:b 1 2 3\n", []line{{Name: "a:b", Err: errTrailing}}},
		"unknown escape":       {`a:b{l="\x"} 1`, []line{{Name: "a:b", Err: errEscape}}},
		"open value":           {"a:b{l=\"v} 1\na:b 2\n", []line{{Name: "a:b", Err: errLabels}, {Name: "a:b", Value: 2}}},
		"open brace":           {`a:b{l="v" 1`, []line{{Name: "a:b", Err: errLabels}}},
		"no quotes":            {`a:b{l=v} 1`, []line{{Name: "a:b", Err: errLabels}}},
		"no label name":        {`a:b{="v"} 1`, []line{{Name: "a:b", Err: errLabels}}},
		"strange after name":   {"a:b=1\n", []line{{Name: "a:b", Err: errValue}}},
		"too many labels":      {"a:b{" + strings.Repeat(`l="v",`, maxLabels+1) + "} 1", []line{{Name: "a:b", Err: errMany}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, scan(c.text, "a:b"), cmp.Comparer(errors.Is)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestScanTellsNamesApart(t *testing.T) {
	names := []string{"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv", "sglang:x", "sglang_x", "v"}
	var text strings.Builder
	var want []line
	for i, n := range names {
		text.WriteString(n + " " + strconv.Itoa(i) + "\n" + n + "x 9\n")
		want = append(want, line{Name: n, Value: float64(i)})
	}
	if d := cmp.Diff(want, scan(text.String(), names...)); d != "" {
		t.Error(d)
	}
}

func FuzzScan(f *testing.F) {
	f.Add("a:b{l=\"v\\n\",m=\"w\"} 1 2\n{\"a:b\"} 3\n", "c")
	f.Add(" a:b\t{ } 1e3 # {} 1\r\n# x", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		if name == "" {
			return
		}
		var s Scanner
		s.Reset(NewIndex("a:b", name), []byte(text))
		lines := 0
		for s.Next() {
			lines++
			if sample, err := s.Sample(); err == nil && len(sample.Labels) > maxLabels {
				t.Errorf("%d labels", len(sample.Labels))
			}
		}
		if most := strings.Count(text, "\n") + 1; lines > most {
			t.Errorf("%d samples on %d lines", lines, most)
		}
	})
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "1.5", ".5", "5.", ".", "", "-1", "1e9", "NaN", "+Inf", "9999999999999999", "0.123456789012345", "0x1p2", "1_0", "infinity"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := number([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		wantOK := err == nil && !strings.ContainsAny(s, "xXpP_")
		if ok != wantOK || ok && math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("number(%q) = %v, %v; strconv says %v, %v", s, got, ok, want, err)
		}
	})
}
