package memory

import (
	"testing"

	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// What is free in a cache does not depend on who asks; where an adapter is does.
func TestIgnoresRequest(t *testing.T) {
	p := newPool(t, 3)
	p.load([]float32{.5, .25, 1}, nil)
	one, other := p.of(), p.of()
	many := uint32(100000)
	other.Request = &scorerv1.InferenceRequest{RequestId: "b", Model: "m", Adapter: "x", Priority: 3, SessionKey: "s", PromptTokenCount: &many, MaxOutputTokenCount: &many}
	if !p.cache.IgnoresRequest() || !proto.Equal(score(t, p.cache, one), score(t, p.cache, other)) {
		t.Error("kv-cache-scorer looks at requests")
	}
	if _, ignores := scorer.Type(p.lora).(scorer.RequestIgnorer); ignores {
		t.Error("lora-affinity-scorer is said to ignore requests")
	}
}
