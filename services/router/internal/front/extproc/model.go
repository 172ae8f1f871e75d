package extproc

import (
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// findModel returns the value of the key "model" of a JSON object, of which the end may
// be missing; "" if it is not there.
func findModel(parts []mem.Buffer, depth int) string {
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
				if t.Escaped {
					return string(jsonscan.AppendUnescaped(nil, t.Bytes))
				}
				return string(t.Bytes)
			default:
				key = false
			}
		}
	}
	return ""
}

// modelOfPart returns the model that is named in what there is of the body, "" if none
// is.
func (x *exchange) modelOfPart() string {
	if !x.scannable() {
		return ""
	}
	return strings.ToValidUTF8(findModel(x.body.parts, x.s.cfg.Prompt.MaxDepth), "\uFFFD")
}
