package body

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Obstacle is why an answer cannot be decoded in rounds, in a constant word. It can be the
// label of metrics.
type Obstacle string

// Obstacles.
const (
	// NotChat: the request is none of a chat: there is no message to go on with.
	NotChat Obstacle = "not-chat"
	// WithinChunk: one round is enough.
	WithinChunk Obstacle = "within-chunk"
	// BadLimit: its limit of tokens is no positive number, which the engine is to say.
	BadLimit Obstacle = "limit"
	// SeveralAnswers: it asks for more than one.
	SeveralAnswers Obstacle = "several-answers"
	// Logprobs: it asks for what is told of each token.
	Logprobs Obstacle = "logprobs"
	// Tools: the answer may be a call, which is read as a whole.
	Tools Obstacle = "tools"
	// Structured: the answer is bound to a grammar, which begins anew with each round.
	Structured Obstacle = "structured-output"
	// StopStrings: what ends the answer is a text, which may be half in one round.
	StopStrings Obstacle = "stop-strings"
	// Penalties: they count what was generated so far, which an engine knows of one round.
	Penalties Obstacle = "penalties"
	// Continuation: the request says itself how the prompt ends.
	Continuation Obstacle = "continuation"
	// Modalities: the answer is not to be text.
	Modalities Obstacle = "modalities"
)

// Obstacles returns all of them.
func Obstacles() []Obstacle {
	return []Obstacle{
		NotChat, WithinChunk, BadLimit, SeveralAnswers, Logprobs, Tools, Structured, StopStrings, Penalties, Continuation, Modalities,
	}
}

// obstacles are the members of a chat that cannot be served in rounds, if their value is
// neither null nor one of those that mean nothing.
var obstacles = map[string]struct {
	why     Obstacle
	nothing string // values, separated by spaces
}{
	"n": {SeveralAnswers, "1"}, "best_of": {SeveralAnswers, "1"}, "use_beam_search": {SeveralAnswers, "false"},
	"logprobs": {Logprobs, "false 0"}, "top_logprobs": {Logprobs, "0"}, "prompt_logprobs": {Logprobs, "false"}, "return_token_ids": {Logprobs, "false"},
	"return_hidden_states": {Logprobs, "false"},
	"tools":                {Tools, "[]"}, "functions": {Tools, "[]"},
	"guided_json": {Structured, ""}, "guided_regex": {Structured, ""}, "guided_choice": {Structured, ""}, "guided_grammar": {Structured, ""},
	"structured_outputs": {Structured, ""}, "structural_tag": {Structured, ""}, "regex": {Structured, ""}, "ebnf": {Structured, ""}, "json_schema": {Structured, ""},
	"stop": {StopStrings, `"" []`}, "stop_regex": {StopStrings, `"" []`}, "bad_words": {StopStrings, "[]"},
	"presence_penalty": {Penalties, "0 0.0"}, "frequency_penalty": {Penalties, "0 0.0"},
	keyContinue: {Continuation, "false"}, keyGeneration: {Continuation, "true"}, "echo": {Continuation, "false"}, "truncate_prompt_tokens": {Continuation, ""},
	"modalities": {Modalities, `["text"]`}, "audio": {Modalities, ""},
}

// Rounds is how the answer of a chat is decoded in rounds.
type Rounds struct {
	o *Outline
	// Budget is how many tokens the client wants at most. Negative: it does not say.
	Budget int64
	// Streams and Usage are true if it wants the answer in events, with a usage at the end.
	Streams, Usage bool
	least          int64 // how many it wants at least
}

// Rounds returns how the answer is decoded in rounds of chunk tokens, or why it cannot be.
func (o *Outline) Rounds(a API, chunk int64) (*Rounds, Obstacle) {
	if a != Chat {
		return nil, NotChat
	}
	if m := find(o.members, keyMessages); m == nil || m.kind != jsonscan.ArrayBegin || empty(o.raw[m.value:m.to]) {
		return nil, Continuation
	}
	if why := o.obstacle(); why != "" {
		return nil, why
	}
	r := &Rounds{o: o, Budget: -1, Streams: o.Streams()}
	if m := find(o.members, keyStreamOptions); m != nil && r.Streams {
		var options struct {
			Usage bool `json:"include_usage"`
		}
		r.Usage = json.Unmarshal(o.raw[m.value:m.to], &options) == nil && options.Usage
	}
	for _, name := range [...]string{keyMaxCompletionTokens, keyMaxTokens} {
		n, given, ok := o.number(name)
		if given && (!ok || n < 1) {
			return nil, BadLimit
		}
		if given && r.Budget < 0 {
			r.Budget = n
		}
	}
	if r.Budget >= 0 && r.Budget <= chunk {
		return nil, WithinChunk
	}
	n, given, ok := o.number(keyMinTokens)
	if given && (!ok || n < 0) {
		return nil, BadLimit
	}
	r.least = n
	return r, ""
}

// obstacle looks for what stands in the way.
func (o *Outline) obstacle() Obstacle {
	called := true
	var found Obstacle
	for i := range o.members {
		m := &o.members[i]
		value := o.raw[m.value:m.to]
		switch name := o.nameOf(m); name {
		case "tool_choice", "function_call":
			called = called && string(value) != `"none"`
		case "response_format":
			if m.kind == jsonscan.ObjectBegin && !plainText(value) {
				return Structured
			}
		default:
			how, ok := obstacles[name]
			if !ok || m.kind == jsonscan.Null || meansNothing(value, how.nothing) {
				continue
			}
			if how.why != Tools {
				return how.why
			}
			found = Tools
		}
	}
	if !called {
		found = ""
	}
	return found
}

func meansNothing(value []byte, nothing string) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return false
	}
	for _, n := range bytes.Fields([]byte(nothing)) {
		if bytes.Equal(compact.Bytes(), n) {
			return true
		}
	}
	return false
}

// plainText is true for a response format that is no format.
func plainText(value []byte) bool {
	var f struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(value, &f) == nil && f.Type == "text"
}

// nameOf returns a member's key.
func (o *Outline) nameOf(m *member) string {
	if m.name != "" {
		return m.name
	}
	end := bytes.LastIndexByte(o.raw[m.from+1:m.value], ':') // in front of it is the key, and white space
	key := bytes.TrimRight(o.raw[m.from+1:m.from+1+end], " \t\r\n")
	key = key[:len(key)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key = jsonscan.AppendUnescaped(nil, key)
	}
	return string(key)
}

// number returns the value of a member that is a whole number.
func (o *Outline) number(name string) (n int64, given, ok bool) {
	m := find(o.members, name)
	if m == nil || m.kind == jsonscan.Null {
		return 0, false, false
	}
	n, err := strconv.ParseInt(string(o.raw[m.value:m.to]), 10, 64)
	return n, true, m.kind == jsonscan.Number && err == nil
}

// empty is true for an array without elements.
func empty(array []byte) bool { return len(bytes.TrimSpace(array[1:len(array)-1])) == 0 }

// First makes the body of the first round: the client's with other limits, and not streamed.
func (r *Rounds) First(limit int64) Body {
	c := changes{o: r.o}
	r.round(&c, limit, 0)
	return c.body()
}

// Next makes the body of a later one: the text so far is the last message, and the engine
// goes on with it. said is that text as within a JSON string, and generated its tokens.
// limit 0: as many as the model can.
func (r *Rounds) Next(limit, generated int64, said []byte) Body {
	c := changes{o: r.o}
	r.round(&c, limit, generated)
	r.alone(&c)
	m := find(r.o.members, keyMessages)
	list := bytes.TrimRight(r.o.raw[m.value:m.to-1], " \t\r\n")
	text := make([]byte, 0, len(list)+len(said)+48)
	text = append(append(text, list...), `,{"role":"assistant","content":"`...)
	text = append(append(text, said...), `"}]`...)
	c.set(keyMessages, string(text))
	c.set(keyGeneration, "false")
	c.set(keyContinue, "true")
	return c.body()
}

// Whole makes the body that has the answer decoded at once after all.
func (r *Rounds) Whole() Body {
	c := changes{o: r.o}
	r.alone(&c)
	return c.body()
}

// alone drops what was handed over, once, and what the engine might decline for.
func (r *Rounds) alone(c *changes) {
	for _, name := range between {
		c.drop(name)
	}
	c.replace(keyThreshold, "0")
}

func (r *Rounds) round(c *changes, limit, generated int64) {
	if c.atOnce(); limit <= 0 {
		c.drop(keyMaxTokens)
		c.drop(keyMaxCompletionTokens)
		return
	}
	text := strconv.FormatInt(limit, 10)
	c.set(keyMaxTokens, text)
	c.set(keyMaxCompletionTokens, text)
	c.replace(keyMinTokens, strconv.FormatInt(max(0, min(r.least-generated, limit)), 10))
}

// Raw is a body that is sent as it is.
func Raw(raw []byte) Body { return Body{parts: [][]byte{raw}, size: int64(len(raw))} }
