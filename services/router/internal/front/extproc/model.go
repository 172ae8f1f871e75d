package extproc

import (
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/pointsman/pointsman/services/router/internal/jsonscan"
)

// place is where a model's name stands in a body, without its quotes.
type place struct {
	start, end int
	name       string
	found      bool
}

// locate finds the value of the key "model" of a JSON object, of which the end may be
// missing.
func locate(parts []mem.Buffer, depth int) (p place) {
	var s jsonscan.Scanner
	s.Reset(depth)
	key := false // the model comes next
	for _, b := range parts {
		s.Feed(b.ReadOnlyData())
		for s.Next() {
			t := &s.Token
			switch {
			case t.Begins() && (t.Depth > 0 || t.Kind == jsonscan.ArrayBegin):
				key = false
				s.Skip()
			case t.Kind == jsonscan.Key:
				key = t.Is("model")
			case key && t.Kind == jsonscan.String && t.Bytes != nil:
				name := string(t.Bytes)
				if t.Escaped {
					name = string(jsonscan.AppendUnescaped(nil, t.Bytes))
				}
				return place{start: int(t.Start), end: int(t.End), name: name, found: true}
			default:
				key = false
			}
		}
	}
	return place{}
}

// modelOfPart returns the model that is named in what there is of the body, "" if none
// is.
func (x *exchange) modelOfPart() string {
	if !x.scannable() {
		return ""
	}
	return strings.ToValidUTF8(locate(x.body.parts, x.s.cfg.Prompt.MaxDepth).name, "\uFFFD")
}
