package app

import (
	"crypto/rand"
	"fmt"

	"github.com/pointsman/pointsman/services/router/internal/admission"
	"github.com/pointsman/pointsman/services/router/internal/front/grpcapi"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// describer reads the requests that gRPC callers describe.
type describer struct {
	parser *prompt.Parser
	gate   *admission.Gate
}

// describe reads a request as the HTTP front would. Done lets go of the body.
func (d describer) describe(id, path string, headers route.Headers, body []byte) (grpcapi.Described, error) {
	if id == "" {
		id = headers.Get("x-request-id")
	}
	if id == "" || len(id) > 128 {
		id = rand.Text()
	}
	in := prompt.Input{Path: path, ContentType: headers.Get("content-type"), ContentEncoding: headers.Get("content-encoding"), Body: body}
	got, err := d.parser.Read(in)
	if err != nil {
		return grpcapi.Described{}, err
	}
	req := &route.Request{ID: id, Path: path, Headers: headers, Priority: d.gate.PriorityOf(headers)}
	describe(req, got)
	model, ok := d.gate.Rewrite(req)
	if ok {
		if in.Body, ok = got.ReplaceModel(nil, body, model); !ok {
			got.Prompt.Release()
			return grpcapi.Described{}, fmt.Errorf("model %.128q is served as %.128q, which cannot be put into a body that is compressed or not JSON", req.Model, model)
		}
		got.Prompt.Release()
		if got, err = d.parser.Read(in); err != nil {
			return grpcapi.Described{}, err
		}
		req.ClientModel = req.Model
		describe(req, got)
	}
	return grpcapi.Described{Request: req, NotUnderstood: notUnderstood(got), Done: got.Prompt.Release}, nil
}

// notUnderstood says why no prompt was read; empty if one was, or if the call has none.
func notUnderstood(got *prompt.Reading) string {
	switch {
	case got.Opaque != "":
		return got.Opaque
	case got.Prompt == nil && got.Kind != prompt.Tokenize:
		return "no prompt was found in it"
	}
	return ""
}

// describe takes over what was read.
func describe(req *route.Request, got *prompt.Reading) {
	req.Model, req.Adapter, req.SessionKey = got.Model, got.Adapter, got.SessionKey
	req.PromptTokens, req.MaxOutputTokens, req.Media = got.PromptTokens, got.MaxOutputTokens, got.Media
	req.Prompt = nil
	if got.Prompt != nil {
		req.Prompt = got.Prompt
	}
}
