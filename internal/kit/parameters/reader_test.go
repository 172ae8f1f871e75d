package parameters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// all reads every kind of parameter.
type all struct {
	Whole  int64
	Number float64
	Flag   bool
	Text   string
}

func read(text string) (all, []string) {
	r := Read([]byte(text), "whole", "number", "flag", "textOfIt", "other")
	r.Exclusive("flag", "other")
	a := all{r.Whole("whole", 7, 0, 10), r.Number("number", .5, 0, 1), r.Flag("flag", true), r.Text("textOfIt", "x")}
	r.Flag("other", false)
	var faults []string
	for _, f := range r.Faults() {
		faults = append(faults, f.GetKey()+": "+f.GetMessage())
	}
	return a, faults
}

func TestRead(t *testing.T) {
	usual := all{7, .5, true, "x"}
	for name, c := range map[string]struct {
		text   string
		want   all
		faults []string
	}{
		"nothing":           {"", usual, nil},
		"an empty object":   {" {} ", usual, nil},
		"null is absent":    {`{"whole":null,"number":null,"flag":null,"textOfIt":null}`, usual, nil},
		"all":               {`{"whole":3,"number":1,"flag":false,"textOfIt":"y"}`, all{3, 1, false, "y"}, nil},
		"any case":          {`{"WHOLE":3,"TEXTofit":"y"}`, all{3, .5, true, "y"}, nil},
		"not an object":     {"[1]", usual, []string{": a JSON object is wanted"}},
		"of wrong types":    {`{"whole":1.5,"number":"1","flag":1,"textOfIt":1}`, usual, []string{"whole: want a whole number, not 1.5", `number: want a number, not "1"`, "flag: want true or false, not 1", "textOfIt: want a text, not 1"}},
		"out of range":      {`{"whole":-1,"number":1.1}`, usual, []string{"whole: must be at least 0, not -1", "number: must be between 0 and 1, not 1.1"}},
		"too great":         {`{"whole":11}`, usual, []string{"whole: must be at most 10, not 11"}},
		"too great for all": {`{"number":1e999}`, usual, []string{"number: want a number, not 1e999"}},
		"unknown":           {`{"whale":1}`, usual, []string{"whale: unknown key; did you mean whole?"}},
		"twice":             {`{"whole":1,"Whole":2}`, all{2, .5, true, "x"}, []string{"whole: set twice, also as Whole"}},
		"two of one kind":   {`{"flag":true,"other":true}`, usual, []string{"other: give only one of flag, other"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, faults := read(c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.faults, faults); diff != "" {
				t.Error(diff)
			}
		})
	}
	if f := Read([]byte(`{"a":1}`)).Faults(); len(f) != 1 || f[0].GetMessage() != "unknown key; there are no parameters" {
		t.Errorf("a type without parameters: %v", f)
	}
}

// What was read can be written down, and comes to the same.
func TestEffective(t *testing.T) {
	read := func(text string) (*Reader, int64) {
		r := Read([]byte(text), "size", "sizeTokens", "share", "on", "name", "most")
		r.Exclusive("size", "sizeTokens")
		size := r.Whole("size", 64, 1, 1<<40)
		if n := r.Whole("sizeTokens", 0, 1, 1<<40); n > 0 {
			size = 4 * n
		}
		r.Number("share", .5, 0, 1)
		r.Flag("on", false)
		r.Text("name", "")
		if most := r.Whole("most", 7, 0, 1<<53); most == 0 {
			r.InEffect("most", 7)
		}
		return r, size
	}
	for text, want := range map[string]string{
		"": `{"size":64,"share":0.5,"on":false,"most":7}`,
		`{"MOST":0,"On":true,"NAME":"a\"b","share":1,"size":1099511627776}`: `{"size":1099511627776,"share":1,"on":true,"name":"a\"b","most":7}`,
		`{"sizetokens":16,"name":"","share":1e-7}`:                          `{"sizeTokens":16,"share":1e-7,"on":false,"name":"","most":7}`,
		`{"size":null,"sizeTokens":16}`:                                     `{"sizeTokens":16,"share":0.5,"on":false,"most":7}`,
	} {
		r, size := read(text)
		got := string(r.Effective())
		if d := cmp.Diff(want, got); d != "" || len(r.Faults()) > 0 {
			t.Errorf("%s: %v\n%s", text, r.Faults(), d)
		}
		again, same := read(got)
		if string(again.Effective()) != got || same != size || len(again.Faults()) > 0 {
			t.Errorf("%s: %s is read as %s, %d as %d, faults %v", text, got, again.Effective(), size, same, again.Faults())
		}
	}
	if got := string(Read(nil).Effective()); got != "{}" {
		t.Errorf("a type without parameters: %s", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"whole":3,"number":1e3,"flag":false,"textOfIt":"y"}`))
	f.Add([]byte(`{"whole":{}}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, faults := read(string(text))
		if a.Whole < 0 || a.Whole > 10 || !(a.Number >= 0 && a.Number <= 1) {
			t.Errorf("%+v with faults %q", a, faults)
		}
	})
}
