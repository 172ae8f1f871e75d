package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Dialect is whose answers a server gives where simulators and engines differ.
type Dialect string

// The dialects.
const (
	// VLLM is that of the engine.
	VLLM Dialect = "vllm"
	// LLMDSim is that of llm-d's simulator, where it differs from the engine: a prefill leg finishes with "remote_decode" and
	// must not be streamed, remote_block_ids is a list of strings, and nothing else, and a prompt that the KV cache does not
	// hold is a failure of the server's.
	LLMDSim Dialect = "llm-d-sim"
)

// finishRemote is the finish_reason of llm-d's simulator for a prompt that another server will go on with.
const finishRemote = "remote_decode"

// strict refuses what llm-d's simulator does not take.
func (s *Server) strict(next http.HandlerFunc) http.HandlerFunc {
	if s.cfg.Dialect != LLMDSim {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			(&apiError{http.StatusRequestEntityTooLarge, "BadRequestError", "", fmt.Sprintf("The body is larger than %d bytes.", maxBody)}).write(w)
			return
		case err != nil:
			badRequest("", "The body cannot be read: %v.", err).write(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q struct {
			Stream bool `json:"stream"`
			Params *struct {
				Decode bool     `json:"do_remote_decode"`
				Blocks []string `json:"remote_block_ids"`
			} `json:"kv_transfer_params"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			badRequest("", "The body is not understood: %v.", err).write(w)
			return
		}
		if q.Params != nil && q.Params.Decode && q.Stream {
			badRequest("stream", "Prefill does not support streaming.").write(w)
			return
		}
		next(w, r)
	}
}

// tooMuch is llm-d's answer to a prompt that the KV cache does not hold; nil if it does.
func (s *Server) tooMuch(tokens int) *apiError {
	most := s.cfg.Engine.BlockSize * s.cfg.Engine.NumBlocks
	if s.cfg.Dialect != LLMDSim || tokens <= most {
		return nil
	}
	return &apiError{http.StatusInternalServerError, "InternalServerError", "", fmt.Sprintf("The KV cache holds %d tokens, the prompt has %d.", most, tokens)}
}

// texts are kv_transfer_params with block ids that are texts.
type texts struct {
	*transferParams
	RemoteBlockIDs []string `json:"remote_block_ids"`
}

// spoken is p as the dialect has it; nil for nil.
func (d Dialect) spoken(p *transferParams) any {
	switch {
	case p == nil:
		return nil
	case d != LLMDSim:
		return p
	}
	t := texts{transferParams: p, RemoteBlockIDs: []string{}}
	for _, b := range p.RemoteBlockIDs {
		t.RemoteBlockIDs = append(t.RemoteBlockIDs, strconv.Itoa(int(b)))
	}
	return t
}
