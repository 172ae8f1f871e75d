package scale

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() *Report {
	r := &Report{Taken: time.Unix(1e9, 0), Command: "bench scale", Version: "v1", Rows: synthetic()}
	r.Fit()
	return r
}

func TestMarkdown(t *testing.T) {
	text := sample().Markdown()
	for _, want := range []string{
		"# What scaling costs, of 2001-09-09 01:46 UTC", "`bench scale`",
		"| router | closed | µs per pick, all replicas | 50.0 + 1.50·k + 0.0200·e + 3.00·(R−1) + 9.00·R·m |",
		"0 %, 0 % | 16 of 16 |",
		"## Sums", "| candidates in one call of a scorer |",
		"| 10 | 50ms | 1 | 1 | 1 | 8 KB | open | 500 (500–500) |",
		"| 100 | 1s | 1 | 1 | 4 | 8 KB | 450 | 10 / 6460 | 10 / 17000 | 0 / 0 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	for _, table := range strings.Split(text, "\n\n") {
		columns := -1
		for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			if n := strings.Count(line, "|"); columns >= 0 && n != columns {
				t.Errorf("%d columns and %d in one table: %s", columns, n, line)
			}
			columns = strings.Count(line, "|")
		}
	}
}

// What was written can be fitted again.
func TestWrite(t *testing.T) {
	dir, r := t.TempDir(), sample()
	if err := r.Write(dir, "x"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	back.Fit()
	if diff := cmp.Diff(FormulaTable(r.Formulas), FormulaTable(back.Formulas)); diff != "" {
		t.Error(diff)
	}
}

const emptyPage = `# Page
before
<!-- bench scale: formulas -->
old
<!-- bench scale: end -->
between
<!-- bench scale: sums -->
<!-- bench scale: end -->
<!-- bench scale: limits -->
old
<!-- bench scale: end -->
after
`

func TestRefresh(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(emptyPage), 0o600); err != nil {
		t.Fatal(err)
	}
	r := sample()
	var first string
	for range 2 { // the second time changes nothing
		if err := r.Refresh(page); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if first != "" && text != first {
			t.Error(cmp.Diff(first, text))
		}
		first = text
	}
	for _, want := range []string{
		"# Page\nbefore\n<!-- bench scale: formulas -->\nFrom [the run of 2001-09-09 01:46 UTC](bench/scale.md)", "\n<!-- bench scale: end -->\nbetween\n<!-- bench scale: sums -->\n|  | 100 endpoints", "<!-- bench scale: limits -->\n| what | needs |",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q:\n%s", want, first)
		}
	}
	if strings.Contains(first, "old") || !strings.HasSuffix(first, "<!-- bench scale: end -->\nafter\n") {
		t.Errorf("the page is\n%s", first)
	}
}

// A page without marks is left as it is.
func TestRefreshFails(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	for name, text := range map[string]string{
		"no marks": "# Page\n",
		"no end":   strings.ReplaceAll(emptyPage, "<!-- bench scale: end -->", ""),
	} {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := sample().Refresh(page)
		if b, _ := os.ReadFile(page); err == nil || !strings.Contains(err.Error(), page) || string(b) != text {
			t.Errorf("%s: %v; the page is %q", name, err, b)
		}
	}
	if err := sample().Refresh(filepath.Join(t.TempDir(), "none.md")); err == nil {
		t.Error("a page that is not there was written")
	}
}
