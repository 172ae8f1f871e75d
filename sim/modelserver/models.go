package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/pointsman/pointsman/sim/token"
)

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

type modelCard struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen *int    `json:"max_model_len"`
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	length := s.cfg.modelLen()
	created := s.born.Unix()
	list := modelList{Object: "list", Data: []modelCard{
		{ID: s.cfg.Model, Object: "model", Created: created, OwnedBy: "vllm", Root: s.cfg.Model, MaxModelLen: &length},
	}}
	s.adaptersMu.Lock()
	defer s.adaptersMu.Unlock()
	for _, name := range s.adapters {
		list.Data = append(list.Data, modelCard{ID: name, Object: "model", Created: created, OwnedBy: "vllm", Root: name, Parent: &s.cfg.Model})
	}
	writeJSON(w, http.StatusOK, list)
}

// adapter is the adapter that a model's name stands for: none for the base model and where no model is named.
func (s *Server) adapter(model string) (string, *apiError) {
	if model == "" || model == s.cfg.Model {
		return "", nil
	}
	s.adaptersMu.Lock()
	defer s.adaptersMu.Unlock()
	if slices.Contains(s.adapters, model) {
		return model, nil
	}
	return "", &apiError{http.StatusNotFound, "NotFoundError", "model", fmt.Sprintf("The model `%s` does not exist.", model)}
}

// loadAdapter and unloadAdapter are vLLM's way to change the adapters at run time.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name string `json:"lora_name"`
		Path string `json:"lora_path"`
	}
	fault := readJSON(w, r, &q)
	s.adaptersMu.Lock()
	defer s.adaptersMu.Unlock()
	switch {
	case fault != nil:
	case q.Name == "" || q.Path == "":
		fault = badRequest("", "Both 'lora_name' and 'lora_path' must be provided.")
	case s.cfg.Engine.MaxAdapters == 0:
		fault = badRequest("", "The server was started without LoRA.")
	case q.Name == s.cfg.Model || slices.Contains(s.adapters, q.Name):
		fault = badRequest("lora_name", "The lora adapter '%s' has already been loaded.", q.Name)
	}
	if fault != nil {
		fault.write(w)
		return
	}
	s.adapters = append(s.adapters, q.Name)
	fmt.Fprintf(w, "Success: LoRA adapter '%s' added successfully.", q.Name)
}

func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name string `json:"lora_name"`
	}
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	s.adaptersMu.Lock()
	defer s.adaptersMu.Unlock()
	at := slices.Index(s.adapters, q.Name)
	if at < 0 {
		(&apiError{http.StatusNotFound, "NotFoundError", "lora_name", fmt.Sprintf("The lora adapter '%s' cannot be found.", q.Name)}).write(w)
		return
	}
	s.adapters = slices.Delete(s.adapters, at, at+1)
	fmt.Fprintf(w, "Success: LoRA adapter '%s' removed successfully.", q.Name)
}

// tokenize tells the tokens of a text or a chat.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		chatRequest
		Prompt *string `json:"prompt"`
	}
	fault := readJSON(w, r, &q)
	if fault == nil {
		_, fault = s.adapter(q.Model)
	}
	if fault == nil && q.Prompt == nil && len(q.Messages) == 0 {
		fault = badRequest("prompt", "Either prompt or messages must be given.")
	}
	if fault != nil {
		fault.write(w)
		return
	}
	tokens := []token.Token{}
	if q.Prompt != nil {
		tokens = token.AppendText(tokens, *q.Prompt)
	} else {
		tokens = q.tokens()
	}
	writeJSON(w, http.StatusOK, struct {
		Count       int             `json:"count"`
		MaxModelLen int             `json:"max_model_len"`
		Tokens      []token.Token   `json:"tokens"`
		TokenStrs   json.RawMessage `json:"token_strs"`
	}{len(tokens), s.cfg.modelLen(), tokens, json.RawMessage("null")})
}
