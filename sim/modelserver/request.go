package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/pointsman/pointsman/sim/token"
)

// maxBody is the most bytes of a request's body.
const maxBody = 64 << 20

// sampling is what the generating requests have in common.
type sampling struct {
	Model               string         `json:"model"`
	MaxTokens           *int           `json:"max_tokens"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	MinTokens           int            `json:"min_tokens"`
	IgnoreEOS           bool           `json:"ignore_eos"`
	N                   *int           `json:"n"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options"`
	CacheSalt           string         `json:"cache_salt"`

	// Of disaggregated prefill.
	KVTransferParams  *transferParams `json:"kv_transfer_params"`
	CacheHitThreshold *float64        `json:"cache_hit_threshold"`

	ECTransferParams map[string]mediaParams `json:"ec_transfer_params"`

	BootstrapHost string `json:"bootstrap_host"`
	BootstrapPort int    `json:"bootstrap_port"`
	BootstrapRoom *int64 `json:"bootstrap_room"`

	media   []string // the hashes of its parts that are no text
	goes    *goesOn  // nil: the answer begins with it
	rank    int      // the data-parallel rank
	matched int      // blocks that another server has
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// limit is the cap on the answer that the request names; 0 means none.
func (s *sampling) limit() (int, *apiError) {
	limit, name := s.MaxCompletionTokens, "max_completion_tokens"
	if limit == nil {
		limit, name = s.MaxTokens, "max_tokens"
	}
	if limit == nil {
		return 0, nil
	}
	if *limit < 1 {
		return 0, badRequest(name, "%s must be at least 1, got %d.", name, *limit)
	}
	return *limit, nil
}

func (s *sampling) includeUsage() bool { return s.StreamOptions != nil && s.StreamOptions.IncludeUsage }

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	sampling
	Messages []chatMessage   `json:"messages"`
	Tools    json.RawMessage `json:"tools"`

	AddGenerationPrompt  *bool `json:"add_generation_prompt"`
	ContinueFinalMessage bool  `json:"continue_final_message"`
}

// goesOn is an answer that was begun by another request: the last message of a chat is its beginning.
type goesOn struct {
	seed uint64 // of the answer
	said int    // tokens of it
}

// begun reads the beginning of an answer that the request wants gone on with.
func (r *chatRequest) begun() *apiError {
	add := r.AddGenerationPrompt == nil || *r.AddGenerationPrompt
	switch {
	case !r.ContinueFinalMessage:
		return nil
	case add:
		return badRequest("", "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	}
	last := r.Messages[len(r.Messages)-1]
	if last.Role != "assistant" || len(last.Content) != 1 || last.Content[0].media != nil {
		return badRequest("messages", "continue_final_message needs a last message with the text of an assistant.")
	}
	before := chatRequest{Messages: r.Messages[:len(r.Messages)-1], Tools: r.Tools}
	r.goes = &goesOn{token.Sum(before.tokens()), len(token.AppendText(nil, last.Content[0].text))}
	return nil
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// content is a text, or parts, or null.
type content []part

type part struct {
	text  string
	media []byte // a part that is no text, as it stood
}

// UnmarshalJSON reads all three shapes.
func (c *content) UnmarshalJSON(b []byte) error {
	*c = nil
	switch b[0] {
	case '"':
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*c = content{{text: text}}
		return nil
	case 'n':
		return nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return errors.New("content must be a string or a list of parts")
	}
	for _, r := range raw {
		var p struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(r, &p); err != nil {
			return fmt.Errorf("a part of content: %w", err)
		}
		if p.Text != nil {
			*c = append(*c, part{text: *p.Text})
		} else {
			*c = append(*c, part{media: bytes.Clone(r)})
		}
	}
	return nil
}

// tokens is the chat as a prompt.
func (r *chatRequest) tokens() []token.Token {
	var dst []token.Token
	if len(r.Tools) > 0 && string(r.Tools) != "null" {
		dst = token.AppendShut(token.AppendText(token.AppendOpen(dst, "tools"), string(r.Tools)))
	}
	for i, m := range r.Messages {
		dst = token.AppendOpen(dst, m.Role)
		for _, p := range m.Content {
			if p.media != nil {
				dst = token.AppendMedia(dst, p.media)
			} else {
				dst = token.AppendText(dst, p.text)
			}
		}
		if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			dst = token.AppendText(dst, string(m.ToolCalls))
		}
		if i == len(r.Messages)-1 && r.ContinueFinalMessage {
			return dst
		}
		dst = token.AppendShut(dst)
	}
	return token.AppendOpen(dst, "assistant")
}

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	sampling
	Prompt prompts `json:"prompt"`
}

// embeddingRequest is the body of /v1/embeddings.
type embeddingRequest struct {
	Model          string  `json:"model"`
	Input          prompts `json:"input"`
	EncodingFormat string  `json:"encoding_format"`
	Dimensions     *int    `json:"dimensions"`
	CacheSalt      string  `json:"cache_salt"`
}

// prompts is a text, a list of texts, token ids, or a list of lists of token ids.
type prompts [][]token.Token

// UnmarshalJSON reads all four shapes.
func (p *prompts) UnmarshalJSON(b []byte) error {
	*p = nil
	var text string
	if json.Unmarshal(b, &text) == nil && b[0] == '"' {
		*p = prompts{token.AppendText(nil, text)}
		return nil
	}
	var texts []string
	var ids []token.Token
	var lists [][]token.Token
	switch {
	case json.Unmarshal(b, &ids) == nil:
		if len(ids) > 0 {
			*p = prompts{ids}
		}
	case json.Unmarshal(b, &texts) == nil:
		for _, t := range texts {
			*p = append(*p, token.AppendText(nil, t))
		}
	case json.Unmarshal(b, &lists) == nil:
		*p = lists
	default:
		return errors.New("must be a string, a list of strings, or token ids")
	}
	return nil
}

// readJSON reads the body of r into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) *apiError {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &apiError{http.StatusRequestEntityTooLarge, "BadRequestError", "", fmt.Sprintf("The body is larger than %d bytes.", maxBody)}
	case err != nil:
		return badRequest("", "The body cannot be read: %v.", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return badRequest("", "The body is not understood: %v.", err)
	}
	return nil
}
