package scorer

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"
	"sync/atomic"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// longestCached is the size in bytes above which parameters are not kept.
const longestCached = 64 << 10

// parsed is what a Type made of parameters.
type parsed struct {
	instance any
	needs    *scorerv1.InputNeeds
	faults   []*scorerv1.ParameterFault
	refusal  error // not nil if there are faults
}

// parameters keeps what a Type made of its parameters, by their bytes. Reading
// takes no lock and does not allocate.
type parameters struct {
	typ   Type
	name  string
	needs *scorerv1.InputNeeds // default
	limit int

	known atomic.Pointer[map[string]*parsed]
	mu    sync.Mutex // held while known is replaced
}

func (p *parameters) get(text []byte) *parsed {
	if known := p.known.Load(); known != nil {
		if e := (*known)[string(text)]; e != nil {
			return e
		}
	}
	e := p.parse(text)
	if len(text) <= longestCached {
		p.keep(string(text), e)
	}
	return e
}

func (p *parameters) parse(text []byte) *parsed {
	if fault := notAnObject(text); fault != nil {
		return p.refuse([]*scorerv1.ParameterFault{fault})
	}
	// The Type may keep the bytes; those of a request are not ours to give away.
	instance, needs, faults := p.typ.Parse(bytes.Clone(text))
	if len(faults) > 0 {
		return p.refuse(faults)
	}
	if needs == nil {
		needs = p.needs
	}
	return &parsed{instance: instance, needs: needs}
}

func (p *parameters) refuse(faults []*scorerv1.ParameterFault) *parsed {
	var b bytes.Buffer
	for i, f := range faults {
		if i > 0 {
			b.WriteString("; ")
		}
		if f.GetKey() != "" {
			b.WriteString(f.GetKey() + ": ")
		}
		b.WriteString(f.GetMessage())
	}
	return &parsed{faults: faults, refusal: InvalidRequest("parameters of %s: %s", p.name, b.String())}
}

// keep adds an entry. A cache that is full starts over: whoever has more than
// the limit in use should raise it.
func (p *parameters) keep(text string, e *parsed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := make(map[string]*parsed)
	if known := p.known.Load(); known != nil && len(*known) < p.limit {
		maps.Copy(next, *known)
	}
	next[text] = e
	p.known.Store(&next)
}

func notAnObject(text []byte) *scorerv1.ParameterFault {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 {
		return nil
	}
	if !json.Valid(text) {
		return &scorerv1.ParameterFault{Message: "this is not valid JSON; a JSON object is wanted"}
	}
	if text[0] != '{' {
		return &scorerv1.ParameterFault{Message: "a JSON object is wanted"}
	}
	return nil
}
