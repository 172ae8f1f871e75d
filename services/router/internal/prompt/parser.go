package prompt

import (
	"mime"
	"strings"
	"sync"
)

// Input is a whole body and what its headers say of it.
type Input struct {
	// Path is the HTTP path; "" lets the shape of the body decide.
	Path string
	// ContentType and ContentEncoding are the headers of these names.
	ContentType, ContentEncoding string
	// Body is the body. It must stay as it is until Prompt.Release.
	Body []byte
}

// Parser reads whole bodies. It is safe for concurrent use.
type Parser struct {
	cfg     Config
	readers sync.Pool
}

// NewParser returns a Parser.
func NewParser(cfg Config) (*Parser, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Parser{cfg: cfg, readers: sync.Pool{New: func() any { return new(Reader) }}}, nil
}

// Read reads a body. A body that is not understood is no error, see Reading.Opaque;
// the error is an *Error and says why the request must be refused.
func (p *Parser) Read(in Input) (*Reading, error) {
	kind := KindOf(in.Path)
	body, opaque, err := p.decode(in, kind)
	if err != nil {
		return nil, err
	}
	if opaque != "" {
		return nothing(in, kind, opaque), nil
	}
	if media, params, err := mime.ParseMediaType(in.ContentType); err == nil && strings.HasPrefix(media, "multipart/") {
		out := nothing(in, kind, "")
		return out, readForm(out, body, params["boundary"])
	}
	if len(body) == 0 && !kind.NeedsJSON() {
		return nothing(in, kind, ""), nil
	}
	if kind == Form {
		return nothing(in, kind, "not a multipart form"), nil
	}
	out, err := p.readJSON(in, kind, body)
	if out != nil && encoded(in.ContentEncoding) {
		out.ModelStart, out.ModelEnd = 0, 0 // they are of the decoded copy
	}
	return out, err
}

func (p *Parser) readJSON(in Input, kind Kind, body []byte) (*Reading, error) {
	r, _ := p.readers.Get().(*Reader)
	defer func() {
		r.reset(Unknown, 0) // let go of the body
		p.readers.Put(r)
	}()
	r.reset(kind, p.cfg.MaxDepth)
	err := r.Write(body)
	if err == nil {
		var out *Reading
		if out, err = r.Close(); err == nil {
			if model := pathModel(in.Path); out.Model == "" && model != "" {
				out.Model = model
				out.reseed(r.salt())
			}
			return out, nil
		}
	}
	if !kind.NeedsJSON() {
		return nothing(in, kind, "not JSON that can be read"), nil
	}
	return nil, err
}

func nothing(in Input, kind Kind, opaque string) *Reading {
	return &Reading{Kind: kind, Model: pathModel(in.Path), MaxOutputTokens: -1, Opaque: opaque}
}
