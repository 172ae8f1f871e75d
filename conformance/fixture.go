package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Limits of the contract.
const (
	maxCandidates = 4096
	maxHashes     = 8192
	maxIDBytes    = 128
	heldTables    = 8
)

// values are what endpoints have in turn as the value of each label, and the first is
// what each header has.
func values() []string { return []string{"a", "b", "c"} }

// labelNames are labels that endpoints have, beside those of the options.
func labelNames() []string {
	return []string{"region", "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "zone"}
}

// asks says whether an input is needed.
func (s *subject) asks(in scorerv1.Input) bool {
	return slices.Contains(s.needs.GetRequiredInputs(), in)
}

// request asks about n endpoints, with what the type needs.
func (s *subject) request(n int) *scorerv1.ScoreRequest {
	req := &scorerv1.ScoreRequest{ScorerType: s.typ.GetName(), ParametersJson: s.options.Parameters, Request: s.inference()}
	list := &scorerv1.CandidateList{}
	for i := range n {
		list.Candidates = append(list.Candidates, s.candidate(i))
	}
	req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: list}
	return req
}

// inference is the request to be routed.
func (s *subject) inference() *scorerv1.InferenceRequest {
	in := &scorerv1.InferenceRequest{
		RequestId: "conformance", Model: "conformance-model", SessionKey: "conformance-session",
		PromptTokenCount: proto.Uint32(200), MaxOutputTokenCount: proto.Uint32(100),
	}
	if s.asks(scorerv1.Input_INPUT_PREFIX_BLOCKS) {
		in.Prefix = prefix(s.needs, 12)
	}
	if s.asks(scorerv1.Input_INPUT_PROMPT_TEXT) {
		in.PromptText = strings.Repeat("Which endpoint shall it be? ", 30)
	}
	if s.asks(scorerv1.Input_INPUT_REQUEST_HEADERS) {
		for _, name := range s.needs.GetHeaderNames() {
			value, ok := s.options.Headers[name]
			if !ok {
				value = values()[0]
			}
			in.Headers = append(in.Headers, &scorerv1.Header{Name: name, Value: value})
		}
	}
	return in
}

func prefix(needs *scorerv1.InputNeeds, blocks int) *scorerv1.PrefixBlocks {
	if most := int(needs.GetMaxPrefixBlocks()); most > 0 {
		blocks = min(blocks, most)
	}
	p := &scorerv1.PrefixBlocks{Scheme: "xxh64-chain/1", BlockSizeBytes: max(needs.GetPrefixBlockSizeBytes(), 1)}
	for i := range blocks {
		p.Hashes = append(p.Hashes, 0x9e3779b97f4a7c15*uint64(i+1)) //nolint:gosec // an index
	}
	return p
}

// id names endpoint i: those that the scorer is said to know come first.
func (s *subject) id(i int) string {
	if i < len(s.options.Endpoints) {
		return s.options.Endpoints[i]
	}
	return fmt.Sprintf("conformance-%04d", i)
}

func (s *subject) candidate(i int) *scorerv1.Candidate {
	c := &scorerv1.Candidate{EndpointId: s.id(i)}
	if s.asks(scorerv1.Input_INPUT_LABELS) {
		c.Labels = s.labels(i)
	}
	if s.asks(scorerv1.Input_INPUT_LOAD) {
		c.Load = load(i)
	}
	if s.asks(scorerv1.Input_INPUT_ADAPTERS) {
		c.Adapters = &scorerv1.Adapters{Running: []string{fmt.Sprint("adapter-", i%3)}, MaxCount: 4}
	}
	return c
}

func (s *subject) labels(i int) []*scorerv1.Label {
	by := make(map[string][]string)
	for _, name := range labelNames() {
		by[name] = values()
	}
	for name, vs := range s.options.Labels {
		by[name] = vs
	}
	var all []*scorerv1.Label
	for name, vs := range by {
		if len(vs) > 0 {
			all = append(all, &scorerv1.Label{Name: name, Value: vs[i%len(vs)]})
		}
	}
	slices.SortFunc(all, func(a, b *scorerv1.Label) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// load is that of endpoint i; no two of the first few are alike.
func load(i int) *scorerv1.EndpointLoad {
	return &scorerv1.EndpointLoad{
		ObserveTime: timestamppb.New(time.Now().Add(-20 * time.Millisecond)), WaitingRequestCount: proto.Uint32(waiting(i)),
		RunningRequestCount: proto.Uint32(running(i)), KvCacheUsageRatio: proto.Float32(usage(i)),
	}
}

func waiting(i int) uint32 { return uint32(i * 5 % 17) } //nolint:gosec // small
func running(i int) uint32 { return uint32(i * 3 % 13) } //nolint:gosec // small
func usage(i int) float32  { return float32(i*7%11) / 11 }

func clone(req *scorerv1.ScoreRequest) *scorerv1.ScoreRequest {
	c, _ := proto.Clone(req).(*scorerv1.ScoreRequest)
	return c
}
