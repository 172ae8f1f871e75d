package requests

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func TestLoadAware(t *testing.T) {
	for name, c := range map[string]struct {
		parameters string
		waiting    []int32
		ages       []time.Duration
		picks      int // on endpoint 0
		want       *scorerv1.ScoreResponse
	}{
		"F6":                     {`{"threshold":10}`, []int32{2, 0, 15}, nil, 0, &scorerv1.ScoreResponse{Scores: []float32{.4, .5, 0}, RequestsPerPoint: 20, StateAge: &durationpb.Duration{}}},
		"the default threshold":  {"", []int32{128, 64, 0}, nil, 0, &scorerv1.ScoreResponse{Scores: []float32{0, .25, .5}, RequestsPerPoint: 256, StateAge: &durationpb.Duration{}}},
		"picks since the scrape": {`{"Threshold":10}`, []int32{0, 0}, nil, 3, &scorerv1.ScoreResponse{Scores: []float32{.35, .5}, RequestsPerPoint: 20, StateAge: &durationpb.Duration{}}},
		"unknown and stale": {`{"threshold":10}`, []int32{2, -1, 0}, []time.Duration{0, 0, time.Minute}, 0, &scorerv1.ScoreResponse{
			Scores: []float32{.4, 0, 0}, AbstainedIndices: []uint32{1, 2}, AbstainReason: stale, RequestsPerPoint: 20, StateAge: &durationpb.Duration{},
		}},
		"nothing known": {"", []int32{-1, -1}, nil, 0, &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, len(c.waiting))
			p.load(c.waiting, nil, c.ages...)
			for i := range c.picks {
				p.r.Pick("router-1", uint64(i), id(0), 0, p.now)
			}
			req := p.of()
			req.ParametersJson = []byte(c.parameters)
			if diff := cmp.Diff(c.want, p.score("load-aware", req), protocmp.Transform()); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadAwareExplains(t *testing.T) {
	p := newPool(t, 2)
	p.load([]int32{3, -1}, nil)
	p.r.Pick("router-1", 1, id(0), 0, p.now)
	req := p.of()
	req.Explain = true
	got := p.score("load-aware", req).GetExplanations()
	if got[0].GetText() != "3 waiting + 1 credited of 128" || got[1].GetText() != "waiting requests not known" {
		t.Errorf("explanations %v", got)
	}
}

func TestLoadAwareParameters(t *testing.T) {
	load := NewLoadAware(Config{})
	for _, text := range []string{`{"threshold":0}`, `{"threshold":-1}`, `{"threshold":1.5}`, `{"treshold":1}`, `[]`, `{"threshold":1048577}`} {
		if _, _, faults := load.Parse([]byte(text)); len(faults) != 1 {
			t.Errorf("%s: faults %v", text, faults)
		}
	}
}
