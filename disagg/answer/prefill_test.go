package answer_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/answer"
)

func TestPrefillAnswers(t *testing.T) {
	transfer := []byte(`{"remote_block_ids": [[1,2]],"remote_num_tokens":9007199254740993}`)
	tests := []struct {
		name, in string
		want     answer.Prefill
		bad      bool
	}{
		{
			"all there", `{"id":"x","choices":[{"index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}},"kv_transfer_params":` + string(transfer) + `}`,
			answer.Prefill{Transfer: transfer, Prompt: 50, Cached: 7}, false,
		},
		{"no details", `{"usage":{"prompt_tokens":50},"kv_transfer_params":null}`, answer.Prefill{Prompt: 50, Cached: 0}, false},
		{"details null", `{"usage":{"prompt_tokens":50,"prompt_tokens_details":null}}`, answer.Prefill{Prompt: 50, Cached: 0}, false},
		{"no usage", `{"choices":[]}`, answer.Prefill{Prompt: -1, Cached: -1}, false},
		{"responses", `{"status":"incomplete","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4}}}`, answer.Prefill{Prompt: 9, Cached: 4}, false},
		{"B173 finished by an error", `{"choices":[{"finish_reason":"error"}],"usage":{"prompt_tokens":5}}`, answer.Prefill{Prompt: 5, Cached: 0, Failed: true}, false},
		{"aborted", `{"choices":[{"message":{"content":"a"},"finish_reason":"abort"}]}`, answer.Prefill{Prompt: -1, Cached: -1, Failed: true}, false},
		{"an error", `{"error":{"message":"no"}}`, answer.Prefill{Prompt: -1, Cached: -1, Failed: true}, false},
		{"vLLM's error", `{"object":"error","message":"no"}`, answer.Prefill{Prompt: -1, Cached: -1, Failed: true}, false},
		{"failed", `{"status":"failed"}`, answer.Prefill{Prompt: -1, Cached: -1, Failed: true}, false},
		{"error null", `{"error":null}`, answer.Prefill{Prompt: -1, Cached: -1}, false},
		{"parameters elsewhere", `{"choices":[{"kv_transfer_params":{"a":1}}],"x":{"kv_transfer_params":{}}}`, answer.Prefill{Prompt: -1, Cached: -1}, false},
		{"parameters of another type", `{"kv_transfer_params":[1]}`, answer.Prefill{Prompt: -1, Cached: -1}, false},
		{"the last ones count", `{"kv_transfer_params":{"a":1},"kv_transfer_params":{"b":2}}`, answer.Prefill{Transfer: []byte(`{"b":2}`), Prompt: -1, Cached: -1}, false},
		{"odd numbers", `{"usage":{"prompt_tokens":-5,"prompt_tokens_details":{"cached_tokens":1.5}}}`, answer.Prefill{Prompt: -1, Cached: 0}, false},
		{"not JSON", `<html>`, answer.Prefill{Prompt: -1, Cached: -1}, true},
		{"cut short", `{"a":`, answer.Prefill{Prompt: -1, Cached: -1}, true},
		{"no object", `[{}]`, answer.Prefill{Prompt: -1, Cached: -1}, true},
		{"a number", `17`, answer.Prefill{Prompt: -1, Cached: -1}, true},
		{"nothing", ``, answer.Prefill{Prompt: -1, Cached: -1}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answer.Read([]byte(tt.in))
			if (err != nil) != tt.bad {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzPrefill checks the parameters against what encoding/json finds.
func FuzzPrefill(f *testing.F) {
	f.Add([]byte(`{"kv_transfer_params":{"a":[1]},"usage":{"prompt_tokens":1},"choices":[{"finish_reason":"error"}]}`))
	f.Add([]byte(`{"kv_transfer_params":{},"kv_transfer_params":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := answer.Read(in)
		var want map[string]json.RawMessage
		if bad := json.Unmarshal(in, &want) != nil || want == nil; bad != (err != nil) {
			if !bad || len(in) < 2000 { // deeper than is read
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if err != nil {
			return
		}
		transfer := []byte(want["kv_transfer_params"])
		if len(transfer) == 0 || transfer[0] != '{' {
			transfer = nil
		}
		if !bytes.Equal(transfer, got.Transfer) {
			t.Fatalf("%q: %q, want %q", in, got.Transfer, transfer)
		}
	})
}

func TestPeek(t *testing.T) {
	const declined = `{"choices":[{"index":0,"text":"","finish_reason":"cache_threshold"}]}`
	tests := []struct {
		name   string
		events bool
		in     string
		want   answer.Verdict
	}{
		{"F5 declined", false, declined, answer.Declined},
		{"F4 answered", false, `{"choices":[{"text":"a","finish_reason":"length"}]}`, answer.Accepted},
		{"the words elsewhere", false, `{"choices":[{"message":{"finish_reason":"cache_threshold"},"text":"cache_threshold"}],"x":[{"finish_reason":"cache_threshold"}]}`, answer.Accepted},
		{"not JSON", false, "hi", answer.Accepted},
		{"nothing", false, "", answer.Accepted},
		{"first event", true, "data: " + declined + "\n\n", answer.Declined},
		{"second event", true, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\ndata: " + declined + "\n\n", answer.Declined},
		{"too late", true, "data: {}\n\ndata: {}\n\ndata: " + declined + "\n\n", answer.Accepted},
		{"without an end", true, "data: " + declined, answer.Declined},
		{"comments", true, ": hi\n\n: hi\n\nevent: x\n", answer.Accepted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 7, len(tt.in) + 1} {
				p := answer.NewPeek(tt.events)
				got, fed := answer.Undecided, 0
				for got == answer.Undecided {
					k := min(n, len(tt.in)-fed)
					fed += k
					got = p.Feed([]byte(tt.in[fed-k:fed]), fed == len(tt.in))
				}
				if got != tt.want || string(p.Seen) != tt.in[:fed] {
					t.Errorf("in pieces of %d: %d after %q, want %d", n, got, p.Seen, tt.want)
				}
			}
		})
	}
	long := answer.NewPeek(false)
	if got := long.Feed(bytes.Repeat([]byte("x"), 100<<10), false); got != answer.Accepted {
		t.Errorf("a long answer is held: %d", got)
	}
}
