package workload

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/sim/token"
)

// chatBody and completionBody are OpenAI's requests, as far as we use them. ignore_eos makes vLLM, and our simulated
// servers, answer with exactly max_tokens tokens.
type chatBody struct {
	Model         string         `json:"model"`
	Messages      []Message      `json:"messages"`
	MaxTokens     int            `json:"max_tokens"`
	IgnoreEOS     bool           `json:"ignore_eos"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
}

type completionBody struct {
	Model         string         `json:"model"`
	Prompt        string         `json:"prompt"`
	MaxTokens     int            `json:"max_tokens"`
	IgnoreEOS     bool           `json:"ignore_eos"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func options(stream bool) *streamOptions {
	if !stream {
		return nil
	}
	return &streamOptions{IncludeUsage: true}
}

// ChatBody is the turn as the JSON body of a chat completion request. A streamed one asks for usage.
func (t Turn) ChatBody(stream bool) []byte {
	return mustJSON(chatBody{t.Model, t.Messages, t.AnswerTokens, true, stream, options(stream)})
}

// CompletionBody is the turn as the JSON body of a completion request, with Text as its prompt.
func (t Turn) CompletionBody(stream bool) []byte {
	return mustJSON(completionBody{t.Model, t.Text(), t.AnswerTokens, true, stream, options(stream)})
}

// Text is the conversation as one text, the earlier turn's text being the beginning of the later one's.
func (t Turn) Text() string {
	var b strings.Builder
	for _, m := range t.Messages {
		b.WriteString(m.Role)
		b.WriteString(":\n")
		b.WriteString(strings.TrimPrefix(m.Content, "\n"))
		b.WriteString("\n")
	}
	b.WriteString("assistant:")
	return b.String()
}

// AppendTokens appends the turn's prompt to dst, as a simulated server reads ChatBody.
func (t Turn) AppendTokens(dst []token.Token) []token.Token {
	for _, m := range t.Messages {
		dst = token.AppendShut(token.AppendText(token.AppendOpen(dst, m.Role), m.Content))
	}
	return token.AppendOpen(dst, "assistant")
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workload: encode %T: %v", v, err)) // strings and numbers always encode
	}
	return b
}
