package filter

import (
	"errors"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// LengthType is the type name of Length, and of the scorer that goes with it.
const LengthType = "context-length-aware"

// DefaultLengthLabel is the label that tells the range of lengths if none is
// configured.
const DefaultLengthLabel = "llm-d.ai/context-length-range"

// Length keeps the candidates whose range of prompt lengths, told by a label of the
// form "min-max" in tokens, has the request's in it, and those without the label. An
// endpoint whose label is no range is dropped. It may leave nobody, which is not for
// load.
//
// A request whose body was not understood has no known length: everybody stays.
type Length struct{ name, label string }

// NewLength returns the filter. It is an error if there is no label.
func NewLength(name, label string) (*Length, error) {
	if label == "" {
		return nil, errors.New("label is empty: it names the label that holds the range")
	}
	return &Length{name: name, label: label}, nil
}

// Name returns the plug-in's name in the configuration.
func (f *Length) Name() string { return f.name }

// Filter implements route.Filter.
func (f *Length) Filter(c *route.Cycle, in []int32) []int32 {
	tokens := c.Request.PromptTokens
	if tokens == 0 && c.Request.Prompt == nil {
		return in
	}
	return keep(in, func(pos int32) bool {
		text, there := c.Snapshot.Table.Endpoints[pos].Label(f.label)
		if !there {
			return true
		}
		least, most, ok := lengths(text)
		return ok && tokens >= least && tokens <= most
	})
}
