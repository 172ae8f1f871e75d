package prompt

import "sync"

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
	cfg      Config
	readers  sync.Pool
	decoders decoders
}

// NewParser returns a Parser.
func NewParser(cfg Config) (*Parser, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Parser{
		cfg: cfg, readers: sync.Pool{New: func() any { return new(Reader) }},
		decoders: decoders{each: cfg.MaxDecodedBytes, all: cfg.MaxDecodedTotalBytes},
	}, nil
}

const (
	notForm = "not a multipart form"
	notJSON = "not JSON that can be read"
)

// Read reads a body. A body that is not understood is no error, see Reading.Opaque;
// the error is an *Error and says why the request must be refused.
func (p *Parser) Read(in Input) (*Reading, error) {
	kind := KindOf(in.Path)
	switch e := encodingOf(in.ContentEncoding); {
	case e == plain:
	case e == unread:
		return nothing(in, kind, UnreadEncoding), nil
	case len(in.Body) > 0:
		return p.readEncoded(in, kind, e)
	}
	if isForm(in.ContentType) {
		out := nothing(in, kind, "")
		return out, readForm(out, in.Body, boundaryOf(in.ContentType))
	}
	if len(in.Body) == 0 && !kind.NeedsJSON() {
		return nothing(in, kind, ""), nil
	}
	if kind == Form {
		return nothing(in, kind, notForm), nil
	}
	out, err := p.readJSON(in.Path, kind, nil, in.Body)
	if err != nil && !kind.NeedsJSON() {
		return nothing(in, kind, notJSON), nil
	}
	return out, err
}

// readJSON reads JSON: whole, or what body gives to write in pieces, which must stay as
// they are until Prompt.Release.
func (p *Parser) readJSON(path string, kind Kind, body func(write func([]byte) error) error, whole []byte) (*Reading, error) {
	r, _ := p.readers.Get().(*Reader)
	defer func() {
		r.reset(Unknown, 0) // let go of the body
		p.readers.Put(r)
	}()
	r.reset(kind, p.cfg.MaxDepth)
	var err error
	if body != nil {
		err = body(r.Write)
	} else {
		err = r.Write(whole)
	}
	if err != nil {
		return nil, err
	}
	out, err := r.Close()
	if err != nil {
		return nil, err
	}
	if model := pathModel(path); out.Model == "" && model != "" {
		out.Model = model
		out.reseed(r.salt())
	}
	return out, nil
}

func nothing(in Input, kind Kind, opaque string) *Reading {
	return &Reading{Kind: kind, Model: pathModel(in.Path), MaxOutputTokens: -1, Opaque: opaque}
}
