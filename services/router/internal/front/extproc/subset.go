package extproc

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// readSubset notes which endpoints the proxy allows. A later message that says so
// replaces what an earlier one has said.
func (x *exchange) readSubset() {
	if x.s.cfg.IgnoreSubset {
		return
	}
	v := x.in.Metadata(namespaceSubset, edge.HeaderSubset)
	if v == nil {
		return
	}
	h := &x.head
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue, nil:
		return // as good as not there
	case *structpb.Value_StringValue:
		h.subset = []string{kind.StringValue}
	case *structpb.Value_ListValue:
		h.subset = make([]string, 0, len(kind.ListValue.GetValues()))
		for _, entry := range kind.ListValue.GetValues() {
			if s, ok := entry.GetKind().(*structpb.Value_StringValue); ok {
				h.subset = append(h.subset, s.StringValue)
			}
		}
	default:
		h.subset = nil // it restricts, to nobody that could be named
	}
	h.hasSubset = true
}
