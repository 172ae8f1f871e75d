package app

import (
	"crypto/rand"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// describer reads the requests that gRPC callers describe.
type describer struct{ parser *prompt.Parser }

// describe reads a request. done lets go of the body.
func (d describer) describe(id, path string, headers route.Headers, body []byte) (req *route.Request, done func(), err error) {
	got, err := d.parser.Read(prompt.Input{Path: path, ContentType: headers.Get("content-type"), ContentEncoding: headers.Get("content-encoding"), Body: body})
	if err != nil {
		return nil, nil, err
	}
	if id == "" {
		id = headers.Get("x-request-id")
	}
	if id == "" || len(id) > 128 {
		id = rand.Text()
	}
	req = &route.Request{
		ID: id, Path: path, Model: got.Model, Adapter: got.Adapter, SessionKey: got.SessionKey, PromptTokens: got.PromptTokens,
		MaxOutputTokens: got.MaxOutputTokens, Headers: headers,
	}
	done = func() {}
	if got.Prompt != nil {
		req.Prompt, done = got.Prompt, got.Prompt.Release
	}
	return req, done, nil
}
