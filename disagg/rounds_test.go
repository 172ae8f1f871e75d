package disagg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
)

// scripted answers round after round as the script says.
func scripted(script ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	at := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		i := min(at, len(script)-1)
		at++
		mu.Unlock()
		script[i](w, r)
	}
}

// says is a round that is answered with the text.
func says(text, reason string, tokens int) http.HandlerFunc {
	return answers(200, "application/json", fmt.Sprintf(`{"id":"r","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":50,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":49}}}`, text, reason, tokens, 50+tokens))
}

// talked is what a client got of an answer in rounds, and how the rounds ended.
type talked struct {
	status int
	header http.Header
	body   string
	err    error // of sending, or of reading
	rounds []Reason
}

// inRounds carries out the rig's request in rounds of size tokens. Without a prefill
// endpoint the engine does all.
func (r *rig) inRounds(ctx context.Context, d *engine, size int64) (out talked) {
	r.t.Helper()
	c, why, err := NewChunks(r.request(), size, func(r Reason) { out.rounds = append(out.rounds, r) })
	if err != nil || why != "" {
		r.t.Fatalf("not in rounds: %q, %v", why, err)
	}
	alone := func(ctx context.Context, q *Request) (*http.Response, error) {
		return r.runner.Alone(ctx, q, d.Endpoint)
	}
	var first *http.Response
	if len(r.plan.Prefill) > 0 {
		first, _, err = r.runner.Do(ctx, &r.plan, c.First(), d.Endpoint, r.watch)
	} else {
		first, err = alone(ctx, c.First())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.runner.Rounds(ctx, c, first, alone)
	if err != nil {
		out.err = err
		return out
	}
	raw, err := io.ReadAll(resp.Body)
	if e := resp.Body.Close(); e != nil {
		r.t.Errorf("close: %v", e)
	}
	out.status, out.header, out.body, out.err = resp.StatusCode, resp.Header, string(raw), err
	return out
}

// limits are what the engine was asked for, round by round.
func limits(t *testing.T, e *engine) (out []string) {
	t.Helper()
	for _, g := range e.requests() {
		var q struct {
			Max       *int             `json:"max_tokens"`
			Newer     *int             `json:"max_completion_tokens"`
			Stream    bool             `json:"stream"`
			Messages  []map[string]any `json:"messages"`
			Continue  bool             `json:"continue_final_message"`
			Transfers json.RawMessage  `json:"kv_transfer_params"`
		}
		if err := json.Unmarshal([]byte(g.body), &q); err != nil {
			t.Fatal(err)
		}
		text := g.id
		if q.Max != nil && q.Newer != nil && *q.Max == *q.Newer {
			text += fmt.Sprintf(" max=%d", *q.Max)
		}
		if q.Continue {
			text += fmt.Sprintf(" after=%v", q.Messages[len(q.Messages)-1]["content"])
		}
		if q.Stream {
			text += " streamed"
		}
		if q.Transfers != nil {
			text += " handed"
		}
		out = append(out, text)
	}
	return out
}

const chatting = `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":25,"seed":9007199254740993%s}`

// roundsRig has a request that is decoded in rounds; more are members of it.
func roundsRig(t *testing.T, more string, prefill ...*engine) *rig {
	r := newRig(t, NIXL, prefill...)
	r.body = fmt.Sprintf(chatting, more)
	return r
}

// The answer is the text of all rounds; only the first has what was handed over, and its
// account of what was cached is the prefill leg's.
func TestChunkedDecode(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", scripted(says("one ", "length", 10), says("two ", "length", 10), says("three", "length", 5)))
	r := roundsRig(t, "", p)
	a := r.inRounds(t.Context(), d, 10)
	want := `{"id":"r","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three"},"finish_reason":"length"}],"usage":{"prompt_tokens":50,"completion_tokens":25,"total_tokens":75,"prompt_tokens_details":{"cached_tokens":7}}}`
	if diff := cmp.Diff(want, a.body); diff != "" || a.err != nil || a.status != 200 || a.header.Get("Content-Length") != fmt.Sprint(len(want)) {
		t.Errorf("%+v %s", a, diff)
	}
	if diff := cmp.Diff([]string{"client-1 max=10 handed", "client-1-chunk-2 max=10 after=one ", "client-1-chunk-3 max=5 after=one two "}, limits(t, d)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Reason{OK, OK, OK}, a.rounds); diff != "" {
		t.Error(diff)
	}
	for _, g := range d.requests() {
		if !strings.Contains(g.body, `"seed":9007199254740993`) || g.header.Get("Content-Digest") != "" || g.header.Get("Accept-Encoding") != "identity" || g.header.Get("Authorization") != "Bearer x" || g.path != "/v1/chat/completions?x=1" {
			t.Errorf("a round %+v", g)
		}
	}
	if diff := cmp.Diff([]string{"begin p", "end p ok"}, r.watch.told(t)); diff != "" {
		t.Error(diff)
	}
	eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
}

// A client that wants a stream gets an event for each round, as it ends, and the usage if it
// wants it.
func TestChunkedDecodeStreamed(t *testing.T) {
	const head = `data: {"id":"r","object":"chat.completion.chunk","created":17,"model":"m","choices":[`
	for name, usage := range map[string]bool{"with usage": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			d := newEngine(t, "d", scripted(says("one ", "length", 10), func(w http.ResponseWriter, r *http.Request) { <-goOn; says("two", "stop", 3)(w, r) }))
			r := roundsRig(t, fmt.Sprintf(`,"stream":true,"stream_options":{"include_usage":%v}`, usage))
			c, _, err := NewChunks(r.request(), 10, nil)
			if err != nil {
				t.Fatal(err)
			}
			alone := func(ctx context.Context, q *Request) (*http.Response, error) {
				return r.runner.Alone(ctx, q, d.Endpoint)
			}
			first, err := alone(t.Context(), c.First())
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.runner.Rounds(t.Context(), c, first, alone)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			none, end := "", ""
			if usage {
				none, end = `,"usage":null`, head+`],"usage":{"prompt_tokens":50,"completion_tokens":13,"total_tokens":63,"prompt_tokens_details":{"cached_tokens":49}}}`+"\n\n"
			}
			one := head + `{"index":0,"delta":{"role":"assistant","content":"one "},"logprobs":null,"finish_reason":null}]` + none + "}\n\n"
			got := make([]byte, len(one))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != one { // the second round is not over
				t.Fatalf("%s, %v, want %s", got, err, one)
			}
			close(goOn)
			rest, err := io.ReadAll(resp.Body)
			want := head + `{"index":0,"delta":{"content":"two"},"logprobs":null,"finish_reason":"stop"}]` + none + "}\n\n" + end + "data: [DONE]\n\n"
			if diff := cmp.Diff(want, string(rest)); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if k := resp.Header.Get("Content-Type"); !strings.HasPrefix(k, "text/event-stream") || resp.Header.Get("Content-Length") != "" || resp.ContentLength != -1 {
				t.Errorf("headers %v", resp.Header)
			}
			if diff := cmp.Diff([]string{"client-1 max=10", "client-1-chunk-2 max=10 after=one "}, limits(t, d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// cutRefusal refuses, and breaks off.
func cutRefusal(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, "{")
}

// What ends the rounds, and that nothing is asked for after it.
func TestChunkedDecodeEnds(t *testing.T) {
	unlimited := strings.NewReplacer(`"max_tokens":25,`, "").Replace
	refuses := answers(400, "application/json", `{"error":{"message":"maximum context length"}}`)
	thinks := answers(200, "application/json", `{"choices":[{"message":{"content":null,"reasoning_content":"hm"},"finish_reason":"length"}],"usage":{"completion_tokens":10}}`)
	for _, tt := range []struct {
		id, body string
		script   []http.HandlerFunc
		text     string // of the answer
		status   int
		err      Reason // of the round that failed without an answer
		asked    []string
		rounds   []Reason
	}{
		{"F22 a stop in the first round", chatting, []http.HandlerFunc{says("one", "stop", 2)}, `"content":"one"`, 200, "", []string{"client-1 max=10"}, []Reason{OK}},
		{"F22 a stop in a later round", chatting, []http.HandlerFunc{says("one", "length", 10), says(" two", "stop", 10)}, `"content":"one two"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, OK}},
		{"F22 empty text", chatting, []http.HandlerFunc{says("one", "length", 10), says("", "length", 10)}, `"content":"one"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, OK}},
		{"F22 fewer tokens than it may have", chatting, []http.HandlerFunc{says("one", "length", 9)}, `"content":"one"`, 200, "", []string{"client-1 max=10"}, []Reason{OK}},
		{"the engine does not count", chatting, []http.HandlerFunc{says("a", "length", 0), says("b", "length", 0), says("c", "length", 0)}, `"content":"abc"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=a", "client-1-chunk-3 max=5 after=ab"}, []Reason{OK, OK, OK}},
		{"cut within a character", chatting, []http.HandlerFunc{says("ab\uFFFD", "length", 10), says("é", "stop", 1)}, `"content":"abé"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=ab"}, []Reason{OK, OK}},
		{"F23 the first round fails", chatting, []http.HandlerFunc{answers(503, "text/plain", "busy")}, "busy", 503, "", []string{"client-1 max=10"}, []Reason{BadStatus}},
		{"F23 a later round fails", chatting, []http.HandlerFunc{says("one", "length", 10), answers(500, "text/plain", "broke")}, "broke", 500, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, BadStatus}},
		{"F23 a later round is refused", chatting, []http.HandlerFunc{says("one", "length", 10), refuses}, "maximum context", 400, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, Refused}},
		{"a later round is no answer", chatting, []http.HandlerFunc{says("one", "length", 10), answers(200, "application/json", `{}`)}, "", 0, Unreadable, []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, Unreadable}},
		{"a later round is cut in a thought", chatting, []http.HandlerFunc{says("one", "length", 10), thinks}, "", 0, NotContinued, []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one"}, []Reason{OK, NotContinued}},
		{"no room for the limit", unlimited(chatting), []http.HandlerFunc{says("one", "length", 10), refuses, says(" two", "length", 4)}, `"content":"one two"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one", "client-1-chunk-3 after=one"}, []Reason{OK, OK}},
		{"no room at all", unlimited(chatting), []http.HandlerFunc{says("one", "length", 10), refuses, refuses}, `"content":"one"},"finish_reason":"length"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one", "client-1-chunk-3 after=one"}, []Reason{OK, NoRoom}},
		{"the engine cannot go on", unlimited(chatting), []http.HandlerFunc{says("one", "length", 10), answers(400, "text/plain", "no such template")}, "no such template", 400, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one", "client-1-chunk-3 after=one"}, []Reason{OK, Refused}},
		{"a refusal that breaks off", unlimited(chatting), []http.HandlerFunc{says("one", "length", 10), cutRefusal, says(" two", "stop", 4)}, `"content":"one two"`, 200, "", []string{"client-1 max=10", "client-1-chunk-2 max=10 after=one", "client-1-chunk-3 after=one"}, []Reason{OK, OK}},
		{"cut in a thought: all at once", chatting, []http.HandlerFunc{thinks, says("whole", "stop", 25)}, `"content":"whole"`, 200, "", []string{"client-1 max=10", "client-1-whole"}, []Reason{NotContinued}},
		{"no answer: all at once", chatting, []http.HandlerFunc{answers(200, "text/plain", "?"), says("whole", "stop", 25)}, `"content":"whole"`, 200, "", []string{"client-1 max=10", "client-1-whole"}, []Reason{NotContinued}},
	} {
		t.Run(tt.id, func(t *testing.T) {
			d := newEngine(t, "d", scripted(tt.script...))
			r := newRig(t, NIXL)
			r.body = fmt.Sprintf(tt.body, "")
			a := r.inRounds(t.Context(), d, 10)
			var failed *RoundError
			switch {
			case tt.err != "" && (!errors.As(a.err, &failed) || failed.Reason != tt.err || failed.Round != 2):
				t.Errorf("error %v", a.err)
			case tt.err == "" && (a.err != nil || a.status != tt.status || !strings.Contains(a.body, tt.text)):
				t.Errorf("%+v", a)
			}
			if diff := cmp.Diff(tt.asked, limits(t, d)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.rounds, a.rounds); diff != "" {
				t.Error(diff)
			}
			eventually(t, "no connection is in use", func() bool { return d.busy() == 0 })
		})
	}
}

// F23 within a stream: what has come stays, and reading fails with the engine's answer.
func TestF23WithinAStream(t *testing.T) {
	d := newEngine(t, "d", scripted(says("one", "length", 10), answers(500, "application/json", `{"error":{"message":"broke"}}`)))
	a := roundsRig(t, `,"stream":true`).inRounds(t.Context(), d, 10)
	var failed *RoundError
	if !errors.As(a.err, &failed) || string(failed.Body) != `{"error":{"message":"broke"}}` || failed.Answer.StatusCode != http.StatusInternalServerError || !strings.Contains(a.body, `"content":"one"`) || strings.Contains(a.body, "[DONE]") {
		t.Errorf("%+v", a)
	}
	// The model has no room for another round: the stream ends as an answer does.
	d = newEngine(t, "d", scripted(says("one", "length", 10), answers(400, "application/json", `{"message":"longer than the model's Context Length"}`)))
	r := newRig(t, NIXL)
	r.body = `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`
	a = r.inRounds(t.Context(), d, 10)
	if a.err != nil || !strings.HasSuffix(a.body, `"delta":{},"logprobs":null,"finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n") {
		t.Errorf("%+v", a)
	}
	if diff := cmp.Diff([]Reason{OK, NoRoom}, a.rounds); diff != "" {
		t.Error(diff)
	}
}

// A client that leaves ends the round that is under way, and there is no other.
func TestChunkedDecodeClientLeaves(t *testing.T) {
	for name, more := range map[string]string{"whole": "", "streamed": `,"stream":true`} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			d := newEngine(t, "d", scripted(says("one", "length", 10), hangs(left)))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				eventually(t, "the second round is under way", func() bool { return len(d.requests()) == 2 })
				cancel()
			}()
			a := roundsRig(t, more).inRounds(ctx, d, 10)
			if !errors.Is(a.err, context.Canceled) {
				t.Errorf("%+v", a)
			}
			<-left
			if diff := cmp.Diff([]Reason{OK, Cancelled}, a.rounds); diff != "" || len(d.requests()) != 2 {
				t.Error(diff)
			}
			eventually(t, "no connection is in use", func() bool { return d.busy() == 0 })
		})
	}
}

// SGLang's servers that decode have every round's prompt from one that prefills.
func TestChunkedDecodeSGLang(t *testing.T) {
	p, d := newEngine(t, "p", answers(200, "application/json", `{}`)), newEngine(t, "d", scripted(says("one", "length", 10), says(" two", "stop", 1)))
	r := roundsRig(t, "", p)
	r.plan.Connector = SGLang
	c, _, err := NewChunks(r.request(), 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context, q *Request) (*http.Response, error) {
		resp, _, err := r.runner.Do(ctx, &r.plan, q, d.Endpoint, r.watch)
		return resp, err
	}
	first, err := send(t.Context(), c.First())
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.runner.Rounds(t.Context(), c, first, send)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(raw), `"content":"one two"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if !strings.Contains(d.requests()[1].body, `"bootstrap_room":`) {
		t.Errorf("the second round has %s", d.requests()[1].body)
	}
	begun := 0
	for _, e := range r.watch.told(t) { // one may be given up before it is sent
		if e == "begin p" {
			begun++
		}
	}
	if begun != 2 {
		t.Errorf("%d prefill legs", begun)
	}
}

// A shared storage: the first round is asked for as the client says, and once more after the
// prefill leg; those after it are decoded whatever is cached.
func TestChunkedDecodeSharedStorage(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", scripted(says("", "cache_threshold", 0), says("one", "length", 10), says(" two", "stop", 1)))
	r := roundsRig(t, `,"cache_hit_threshold":0.5`, p)
	r.plan.Connector = SharedStorage
	a := r.inRounds(t.Context(), d, 10)
	if a.err != nil || !strings.Contains(a.body, `"content":"one two"`) {
		t.Errorf("%+v", a)
	}
	var thresholds []string
	for _, g := range d.requests() {
		_, rest, _ := strings.Cut(g.body, `"cache_hit_threshold":`)
		value, _, _ := strings.Cut(rest, ",")
		thresholds = append(thresholds, strings.TrimSuffix(value, "}"))
	}
	if diff := cmp.Diff([]string{"0.5", "0", "0"}, thresholds); diff != "" || len(p.requests()) != 1 {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Reason{OK, OK}, a.rounds); diff != "" {
		t.Error(diff)
	}
}

func TestNoChunks(t *testing.T) {
	r := newRig(t, NIXL)
	for path, why := range map[string]body.Obstacle{"/v1/completions": body.NotChat, "/v1/chat/completions": body.WithinChunk} {
		r.path, r.body = path, `{"messages":[1],"max_tokens":10}`
		if c, got, err := NewChunks(r.request(), 10, nil); c != nil || got != why || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	r.body = "["
	r.path = "/v1/chat/completions"
	if _, _, err := NewChunks(r.request(), 10, nil); err == nil {
		t.Error("a body that is no JSON")
	}
}
