package route

import (
	"encoding/base64"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// SessionIssuer is implemented by Scorer.Asked of scorers that find a client's endpoint
// again by a token which the client was given in an answer.
type SessionIssuer interface {
	// SessionHeader is the lower-case name of the response header that holds the
	// token; empty for none.
	SessionHeader() string
}

// Header is one header of an answer.
type Header struct {
	// Name is in lower case.
	Name string
	// Value is printable.
	Value string
}

// ResponseHeaders returns the headers that the client must be given with the answer of
// the endpoint, which may be another than was picked, after a retry. A front sets them
// in place of the endpoint's own of the same names.
func (d *Decision) ResponseHeaders(from *roster.Endpoint) []Header {
	if from == nil || len(d.SessionHeaders) == 0 {
		return nil
	}
	token := SessionToken(d.Pool, from.ID)
	all := make([]Header, len(d.SessionHeaders))
	for i, name := range d.SessionHeaders {
		all[i] = Header{name, token}
	}
	return all
}

// SessionToken is the token for an endpoint of a pool: base64 of "pool/endpoint id".
func SessionToken(pool string, id roster.ID) string {
	return base64.StdEncoding.EncodeToString([]byte(pool + "/" + string(id)))
}

// sessionHeaders returns the headers that the profile's scorers want tokens in, each
// once; nil, nearly always, if none does.
func sessionHeaders(p *Profile) []string {
	var names []string
next:
	for i := range p.Scorers {
		issuer, ok := p.Scorers[i].Asked.(SessionIssuer)
		if !ok {
			continue
		}
		name := issuer.SessionHeader()
		if name == "" {
			continue
		}
		for _, n := range names {
			if n == name {
				continue next
			}
		}
		names = append(names, name)
	}
	return names
}
