package modelserver

import (
	"strconv"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

// shape writes answers of one HTTP request as OpenAI's JSON: chat completions or completions.
type shape struct {
	chat    bool
	id      string
	created int64
	model   string
	// Of whole answers:
	transfer *transferParams        // where the blocks are; nil if they are not kept
	encoded  map[string]mediaParams // where what was encoded is; nil if nothing was
	failed   bool                   // the request failed
	dialect  Dialect

	usage bool // the stream ends with the usage, and every other chunk says that it has none
}

// The bodies of whole answers.
type wholeBody struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []wholeChoice `json:"choices"`
	Usage   usage         `json:"usage"`

	KVTransferParams any                    `json:"kv_transfer_params,omitempty"`
	ECTransferParams map[string]mediaParams `json:"ec_transfer_params,omitempty"`
}

type wholeChoice struct {
	Index        int           `json:"index"`
	Message      *wholeMessage `json:"message,omitempty"` // chat
	Text         *string       `json:"text,omitempty"`    // completion
	Logprobs     *struct{}     `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

type wholeMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// whole is the answer of g, which must be over, in one piece.
func (h *shape) whole(g *generation) []byte {
	body := wholeBody{ID: h.id, Object: "text_completion", Created: h.created, Model: h.model, Usage: g.usage(), KVTransferParams: h.dialect.spoken(h.transfer), ECTransferParams: h.encoded}
	if h.chat {
		body.Object = "chat.completion"
	}
	for i, c := range g.calls {
		choice := wholeChoice{Index: i, FinishReason: c.reason.String()}
		if h.failed {
			choice.FinishReason = engine.Failed.String()
		}
		if i == 0 && h.transfer != nil && h.dialect == LLMDSim {
			choice.FinishReason = finishRemote
		}
		if text := g.text(i); h.chat {
			choice.Message = &wholeMessage{"assistant", text}
		} else {
			choice.Text = &text
		}
		body.Choices = append(body.Choices, choice)
	}
	return mustJSON(body)
}

// Chunks are written by hand: there is one for every token.

func (h *shape) appendBegin(dst []byte) []byte {
	object := "text_completion"
	if h.chat {
		object = "chat.completion.chunk"
	}
	dst = append(dst, `data: {"id":`...)
	dst = append(dst, quote(h.id)...)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, h.created, 10)
	dst = append(dst, `,"model":`...)
	dst = append(dst, quote(h.model)...)
	return append(dst, `,"choices":[`...)
}

// appendChoice writes a chunk with one choice. delta is the JSON of the choice's delta or text.
func (h *shape) appendChoice(dst []byte, i int, delta func([]byte) []byte, finish string) []byte {
	dst = h.appendBegin(dst)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	if h.chat {
		dst = append(dst, `,"delta":`...)
	} else {
		dst = append(dst, `,"text":`...)
	}
	dst = delta(dst)
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		dst = append(dst, `null`...)
	} else {
		dst = strconv.AppendQuote(dst, finish)
	}
	dst = append(dst, `}]`...)
	if h.usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// appendRole writes the chunk that begins a chat's choice.
func (h *shape) appendRole(dst []byte, i int) []byte {
	return h.appendChoice(dst, i, func(dst []byte) []byte { return append(dst, `{"role":"assistant","content":""}`...) }, "")
}

// appendPiece writes the chunk of the n-th token, from 0.
func (h *shape) appendPiece(dst []byte, i int, seed uint64, n int, head token.Head) []byte {
	return h.appendChoice(dst, i, func(dst []byte) []byte {
		var piece [token.Size]byte
		// Pieces are letters, spaces and newlines: Go's quotes are JSON's.
		text := string(token.AppendPiece(piece[:0], seed, n, head))
		if !h.chat {
			return strconv.AppendQuote(dst, text)
		}
		dst = append(dst, `{"content":`...)
		dst = strconv.AppendQuote(dst, text)
		return append(dst, '}')
	}, "")
}

// appendFinish writes the chunk that ends a choice.
func (h *shape) appendFinish(dst []byte, i int, reason string) []byte {
	return h.appendChoice(dst, i, func(dst []byte) []byte {
		if h.chat {
			return append(dst, `{}`...)
		}
		return append(dst, `""`...)
	}, reason)
}

// appendEnd writes the usage, if it was asked for, and the end of the stream.
func (h *shape) appendEnd(dst []byte, g *generation) []byte {
	if h.usage {
		dst = h.appendBegin(dst)
		dst = append(dst, `],"usage":`...)
		dst = append(dst, mustJSON(g.usage())...)
		dst = append(dst, "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// quote is a JSON string: names come from the configuration, ids from clients.
func quote(s string) []byte { return mustJSON(s) }
