package memory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func TestAffinityByTable(t *testing.T) {
	// it runs · fits · waits and is full (F9) · full (F10) · none fit (F10) · never told
	adapters := map[uint32]*roster.Adapters{
		0: {Running: []string{"it", "other"}, Max: 2},
		1: {Running: []string{"other"}, Max: 2},
		2: {Running: []string{"other"}, Waiting: []string{"it"}, Max: 2},
		3: {Running: []string{"other"}, Waiting: []string{"third"}, Max: 2},
		4: {},
	}
	cases := map[string]struct {
		request *scorerv1.InferenceRequest
		ages    []time.Duration
		want    []float32 // -1: abstained
		reason  scorerv1.AbstainReason
	}{
		"the model names the adapter": {
			&scorerv1.InferenceRequest{Model: "it"}, nil, []float32{1, .8, .6, 0, 0, -1}, unknown,
		},
		"the adapter goes before the model": {
			&scorerv1.InferenceRequest{Model: "base", Adapter: "it"}, nil, []float32{1, .8, .6, 0, 0, -1}, unknown,
		},
		"an adapter that is nowhere goes where it fits": {
			&scorerv1.InferenceRequest{Model: "new"}, nil, []float32{0, .8, 0, 0, 0, -1}, unknown,
		},
		"no name at all": {
			&scorerv1.InferenceRequest{}, nil, []float32{-1, -1, -1, -1, -1, -1}, nothing,
		},
		"stale": {
			&scorerv1.InferenceRequest{Model: "it"}, []time.Duration{limit + time.Second}, []float32{-1, .8, .6, 0, 0, -1}, stale,
		},
		"all is stale": {
			&scorerv1.InferenceRequest{Model: "it"}, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute, time.Minute, time.Minute},
			[]float32{-1, -1, -1, -1, -1, -1}, stale,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 6)
			p.load(nil, adapters, c.ages...)
			req := p.of()
			req.Request = c.request
			got := score(t, p.lora, req)
			if diff := cmp.Diff(c.want, byCandidate(got, 6)); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
			n := 0
			for _, s := range c.want {
				if s < 0 {
					n++
				}
			}
			if got.GetAbstainReason() != c.reason || p.abstained[c.reason] != n {
				t.Errorf("reason %v, reported %v, want %d for %v", got.GetAbstainReason(), p.abstained, n, c.reason)
			}
		})
	}
}

func TestAffinityByList(t *testing.T) {
	p := newPool(t, 2)
	p.load(nil, map[uint32]*roster.Adapters{0: {Running: []string{"it"}, Max: 1}})
	got := score(t, p.lora, withModel("it", listed(
		&scorerv1.Candidate{EndpointId: "stranger-1", Adapters: &scorerv1.Adapters{Running: []string{"b", "it"}, MaxCount: 2}},
		&scorerv1.Candidate{EndpointId: "stranger-2", Adapters: &scorerv1.Adapters{Running: []string{"b"}, Waiting: []string{"it"}, MaxCount: 2}},
		&scorerv1.Candidate{EndpointId: string(id(0)), Adapters: &scorerv1.Adapters{MaxCount: 2}}, // what comes along is newer
		&scorerv1.Candidate{EndpointId: string(id(0))},
		&scorerv1.Candidate{EndpointId: string(id(1))}, // tells of none
		&scorerv1.Candidate{
			EndpointId: "stranger-3", Adapters: &scorerv1.Adapters{Running: []string{"it"}, MaxCount: 2},
			Load: &scorerv1.EndpointLoad{ObserveTime: timestamppb.New(time.Now().Add(-time.Minute))},
		},
		&scorerv1.Candidate{EndpointId: "stranger-4"},
	)))
	if diff := cmp.Diff([]float32{1, .6, .8, 1, -1, -1, -1}, byCandidate(got, 7)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func withModel(model string, req *scorerv1.ScoreRequest) *scorerv1.ScoreRequest {
	req.Request.Model = model
	return req
}

func TestAffinityExplains(t *testing.T) {
	p := newPool(t, 6)
	p.load(nil, map[uint32]*roster.Adapters{
		0: {Running: []string{"it"}, Max: 2}, 1: {Max: 2}, 2: {Running: []string{"b"}, Waiting: []string{"it"}, Max: 2}, 3: {Running: []string{"b"}, Max: 1},
		5: {Max: 1},
	}, 0, 0, 0, 0, 0, 6*time.Second)
	req := withModel("it", p.of())
	req.Explain = true
	var got []string
	for _, e := range score(t, p.lora, req).GetExplanations() {
		got = append(got, e.GetText())
	}
	want := []string{
		"adapter running, 1 of 2 slots taken", "adapter fits, 0 of 2 slots taken", "adapter waited for, 2 of 2 slots taken", "adapter not loaded, 1 of 1 slots taken",
		"adapters not known", "figures are 6s old",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("explanations (-want +got):\n%s", diff)
	}
}
