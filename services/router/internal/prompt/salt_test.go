package prompt_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

func salted(client string) string { return "<" + client + ">" }

// B224: whatever salts a client sends, none of its own gets past.
func TestB224EditSalts(t *testing.T) {
	for name, c := range map[string]struct {
		path, encoding, body, want string
		reason                     prompt.Reason
	}{
		"none":                         {body: `{"model":"a","prompt":"x"}`, want: `{"cache_salt":"<>","model":"a","prompt":"x"}`},
		"one":                          {body: `{"model":"a", "cache_salt" : "victim" ,"prompt":"x"}`, want: `{"model":"a", "cache_salt" : "<victim>" ,"prompt":"x"}`},
		"at the end":                   {body: `{"model":"a","prompt":"x","cache_salt":""}`, want: `{"model":"a","prompt":"x","cache_salt":"<>"}`},
		"null":                         {body: `{"cache_salt":null,"model":"a","prompt":"x"}`, want: `{"cache_salt":"<>","model":"a","prompt":"x"}`},
		"a number":                     {body: `{"cache_salt":12,"model":"a","prompt":"x"}`, want: `{"cache_salt":"<12>","model":"a","prompt":"x"}`},
		"an object":                    {body: `{"cache_salt":{"a":["}"]},"model":"a","prompt":"x"}`, want: `{"cache_salt":"<{\"a\":[\"}\"]}>","model":"a","prompt":"x"}`},
		"the key in escapes":           {body: `{"model":"a","prompt":"x","cache\u005fsalt":"\u0076"}`, want: `{"model":"a","prompt":"x","cache\u005fsalt":"<v>"}`},
		"a key of that name":           {body: ` {"model":"a","prompt":"x","metadata":{"cache_salt":"v"}}`, want: ` {"cache_salt":"<>","model":"a","prompt":"x","metadata":{"cache_salt":"v"}}`},
		"twice":                        {body: `{"cache_salt":"a","model":"a","prompt":"x","cache_salt":"b"}`, reason: prompt.DuplicateKey},
		"compressed":                   {encoding: "br, gzip, br, gzip", body: "x", reason: prompt.Unwritable},
		"chat leaves extra_key":        {path: "/v1/chat/completions", body: `{"model":"a","messages":[],"extra_key":"k"}`, want: `{"cache_salt":"<>","model":"a","messages":[],"extra_key":"k"}`},
		"generate has both":            {path: "/generate", body: `{"text":"x","extra_key":"k"}`, want: `{"cache_salt":"<>","text":"x","extra_key":"<k>"}`},
		"generate has none":            {path: "/generate", body: `{ }`, want: `{"extra_key":"<>","cache_salt":"<>" }`},
		"generate has extra_key twice": {path: "/generate", body: `{"extra_key":"a","text":"x","extra_key":"b"}`, reason: prompt.DuplicateKey},
	} {
		t.Run(name, func(t *testing.T) {
			if c.path == "" {
				c.path = "/v1/completions"
			}
			got, err := newParser(t).Read(prompt.Input{Path: c.path, ContentEncoding: c.encoding, Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			edits, err := got.EditSalts(salted)
			var refused *prompt.Error
			switch {
			case c.reason != "":
				if !errors.As(err, &refused) || refused.Reason != c.reason {
					t.Errorf("%v, want %s", err, c.reason)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if out := prompt.Apply(nil, []byte(c.body), prompt.Edits(edits)); string(out) != c.want {
				t.Errorf("%s\nwant %s", out, c.want)
			}
		})
	}
}

// B224: however a body is written, the engine sees our salt and the rest as it was.
func FuzzEditSalts(f *testing.F) {
	for _, s := range []string{`{"model":"a","prompt":"x"}`, `{"cache_salt":{"x":1},"model":"a"}`, `{}`, ` { "cache_salt"` + ":\n" + `"\u0061" }`, `{"extra_key":1,"cache_salt":[],"text":"x"}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, generate bool) {
		path := "/v1/completions"
		if generate {
			path = "/generate"
		}
		got, err := newParser(t).Read(prompt.Input{Path: path, Body: body})
		if err != nil {
			return
		}
		edits, err := got.EditSalts(func(string) string { return "ours" })
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(body, &before); err != nil || before == nil {
			return // what we take and a strict reader does not
		}
		if err := json.Unmarshal(prompt.Apply(nil, body, prompt.Edits(edits)), &after); err != nil {
			t.Fatalf("%q is no JSON any more: %v", body, err)
		}
		for _, key := range []string{"cache_salt", "extra_key"} {
			if ours := string(after[key]) == `"ours"`; ours != (key == "cache_salt" || generate) && string(before[key]) != `"ours"` {
				t.Fatalf("%q has %s %s", body, key, after[key])
			}
			if key == "cache_salt" || generate {
				delete(before, key)
				delete(after, key)
			}
		}
		if len(before) != len(after) {
			t.Fatalf("%q: %d other keys, were %d", body, len(after), len(before))
		}
		for k, v := range before {
			if string(after[k]) != string(v) {
				t.Fatalf("%q: %s became %s", body, k, after[k])
			}
		}
	})
}
