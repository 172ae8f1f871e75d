package inflight

import (
	"testing"

	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// A type says that it ignores requests exactly if their answers are the same.
func TestIgnoresRequest(t *testing.T) {
	p := newPool(t, 3)
	p.pick(1, 2, 500)
	for kind, typ := range p.types {
		one, other := p.of(""), p.of("")
		few, many := uint32(10), uint32(100000)
		one.Request = &scorerv1.InferenceRequest{RequestId: "a", PromptTokenCount: &few}
		other.Request = &scorerv1.InferenceRequest{RequestId: "b", Model: "m", Adapter: "x", Priority: 3, SessionKey: "s", PromptTokenCount: &many, MaxOutputTokenCount: &many}
		if same := proto.Equal(p.score(kind, one), p.score(kind, other)); same != typ.IgnoresRequest() {
			t.Errorf("%s: answers are the same: %t; it says that it ignores requests: %t", kind, same, typ.IgnoresRequest())
		}
	}
}
