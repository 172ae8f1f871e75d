package answer

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readRound(t *testing.T, raw string) *Round {
	t.Helper()
	r, err := ReadRound([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	round1 = `{"id":"chatcmpl-1","object":"chat.completion","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hal\u006co, ","tool_calls":[]},"logprobs":null,"finish_reason":"length","stop_reason":null}],` +
		`"usage":{"prompt_tokens":50,"total_tokens":60,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":0,"x":1}},"kv_transfer_params":null}`
	round2 = `{"id":"chatcmpl-2","created":18,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"du.","tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":107}],` +
		`"usage":{"prompt_tokens":60,"total_tokens":64,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":48},"completion_tokens_details":{"x":2}}}`
)

// The tokens of the rounds are summed; the prompt, and what was cached of it, are the first
// one's: that of later rounds has the answer so far in it.
func TestMerge(t *testing.T) {
	all := []*Round{readRound(t, round1), readRound(t, round2)}
	if !all[0].Cut || !all[0].Only || all[0].Generated != 10 || string(all[0].Text) != `Hal\u006co, ` || all[1].Cut {
		t.Errorf("%+v", all[0])
	}
	want := `{"id":"chatcmpl-1","object":"chat.completion","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hal\u006co, du.","tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":107}],` +
		`"usage":{"prompt_tokens":50,"total_tokens":64,"completion_tokens":14,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":0,"x":3}},"kv_transfer_params":null}`
	if diff := cmp.Diff(want, string(Merge(all))); diff != "" {
		t.Error(diff)
	}
	const head = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m",`
	for _, e := range []struct{ got, want string }{
		{string(all[0].Event(nil, all[0], false, true)), head + `"choices":[{"index":0,"delta":{"role":"assistant","content":"Hal\u006co, ","tool_calls":[]},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"},
		{string(all[1].Event(nil, all[0], true, false)), head + `"choices":[{"index":0,"delta":{"content":"du."},"logprobs":null,"finish_reason":"stop","stop_reason":107}]}` + "\n\n"},
		{string(all[0].End(nil, all[0], true)), head + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}` + "\n\n"},
		{string(UsageEvent(nil, all)), head + `"choices":[],"usage":{"prompt_tokens":50,"total_tokens":64,"completion_tokens":14,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":0,"x":3}}}` + "\n\n"},
	} {
		if diff := cmp.Diff(e.want, e.got); diff != "" {
			t.Error(diff)
		}
	}
}

// The last round may have no text.
func TestMergeWithoutText(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"assistant","content":null}`: `{"role":"assistant","content":"Hal\u006co, "}`,
		`{"role":"assistant"}`:                `{"role":"assistant","content":"Hal\u006co, "}`,
		`{}`:                                  `{"content":"Hal\u006co, "}`,
		`{"content":""}`:                      `{"content":"Hal\u006co, "}`,
	} {
		last := readRound(t, `{"choices":[{"message":`+message+`,"finish_reason":"stop"}]}`)
		var got struct {
			Choices []struct{ Message json.RawMessage }
			Usage   struct {
				Completion int64 `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal(Merge([]*Round{readRound(t, round1), last}), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Choices[0].Message) != want || got.Usage.Completion != 10 {
			t.Errorf("%s has become %s, usage %+v", message, got.Choices[0].Message, got.Usage)
		}
	}
	// A message that is there twice, as no engine has it: nothing is of the first one.
	twice := readRound(t, `{"choices":[{"message":{"content":"x"},"message":{}}],"usage":{"completion_tokens":1}}`)
	if got := string(twice.Event(nil, twice, true, false)); len(twice.Text) != 0 || got != `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}]}`+"\n\n" {
		t.Errorf("%q, %s", twice.Text, got)
	}
	if u := UsageEvent(nil, []*Round{readRound(t, `{"choices":[{"message":{}}]}`)}); u != nil {
		t.Errorf("a usage is made up: %s", u)
	}
}

// A text that was cut within a character is mended; one that only looks so is left alone.
func TestMend(t *testing.T) {
	for in, want := range map[string]string{
		"ab\uFFFD": "ab", `ab\ufffd\uFFFD`: "ab", `ab\\ufffd`: `ab\\ufffd`, `ab\\\ufffd`: `ab\\`, "\uFFFD": "\uFFFD", "ab": "ab", "": "",
	} {
		r := readRound(t, `{"choices":[{"message":{"content":"`+in+`"}}]}`)
		if r.Mend(); string(r.Text) != want {
			t.Errorf("%q has become %q, want %q", in, r.Text, want)
		}
	}
}

func TestRoundsThatAreNone(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{}`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"message":{}},{"message":{}}]}`, `{"choices":[{"message":null}]}`, `{"choices":{"message":{}}}`, `{"choices":[{"message":{}},5]}`, `{"choices":[{"message":{}},[]]}`, `{"choices":[{"message":{}}]`} {
		if _, err := ReadRound([]byte(raw)); err == nil {
			t.Errorf("%s is taken", raw)
		}
	}
	for message, only := range map[string]bool{
		`{"content":"x","refusal":null,"annotations":[],"function_call":{}}`: true,
		`{"content":"x","reasoning_content":"y"}`:                            false, `{"content":null,"tool_calls":[{}]}`: false, `{"content":[{"type":"text"}]}`: false,
	} {
		if r := readRound(t, `{"choices":[{"message":`+message+`}]}`); r.Only != only {
			t.Errorf("%s: only text is %v", message, r.Only)
		}
	}
}

func FuzzReadRound(f *testing.F) {
	f.Add([]byte(round1))
	f.Add([]byte(round2))
	f.Add([]byte(`{"choices":[{"message":{"content":"x"},"message":{}}]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":"x"}},5]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":"\ufffd"}}],"usage":{"completion_tokens":9e9}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ReadRound(raw)
		if err != nil {
			return
		}
		r.Mend()
		for _, b := range [][]byte{Merge([]*Round{r}), Merge([]*Round{readRound(t, round1), r}), Merge([]*Round{r, readRound(t, round2)})} {
			if !json.Valid(b) {
				t.Errorf("%s has become %s", raw, b)
			}
		}
		for _, e := range [][]byte{r.Event(nil, r, true, true), UsageEvent(nil, []*Round{r})} {
			if len(e) > 0 && !json.Valid(e[len("data: "):]) {
				t.Errorf("%s is told as %s", raw, e)
			}
		}
	})
}

func TestUnion(t *testing.T) {
	objects := func(all ...string) (out [][]byte) {
		for _, s := range all {
			if s == "" {
				out = append(out, nil)
			} else {
				out = append(out, []byte(s))
			}
		}
		return out
	}
	for _, tt := range []struct {
		in   [][]byte
		want string
	}{
		{nil, ""},
		{objects("", ""), ""},
		{objects("{}"), "{}"},
		{objects(`{ "a" : {"p":9007199254740993} }`, "", `{"b":"x","a":1,"c":[1, 2]}`, `{"d":null}`), `{"a" : {"p":9007199254740993},"b":"x","c":[1, 2],"d":null}`},
	} {
		if got := string(Union(tt.in)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, got, tt.want)
		}
	}
}
