package grpcapi

import (
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// pickResponse is the answer to Pick.
func pickResponse(d *route.Decision) *routerv1.PickResponse {
	req := d.Request
	out := &routerv1.PickResponse{
		PickId: d.Reservation.PickID(), RequestId: req.ID, Endpoint: endpoint(d.Endpoint), Fallbacks: endpoints(d.Fallbacks),
		RequestHeaders:  []*routerv1.Header{{Name: edge.HeaderRequestID, Value: req.ID}},
		ResponseHeaders: responseHeaders(d), RemovedRequestHeaders: edge.RoutingHeaders(),
	}
	if req.ClientModel != "" {
		out.Model = req.Model
	}
	if d.Plan == nil {
		return out
	}
	for _, h := range edge.StageHeaders(d) {
		out.RequestHeaders = append(out.RequestHeaders, &routerv1.Header{Name: h.Name, Value: h.Value})
	}
	if d.Plan.PrimaryPort != 0 {
		out.Endpoint.Address = d.AddressOf(d.Endpoint)
		out.Fallbacks = nil // the header names a rank of the pick's server
	}
	for i := range d.Plan.Stages {
		g := &d.Plan.Stages[i]
		out.Stages = append(out.Stages, &routerv1.Stage{
			Stage: g.Name, Profile: g.Result.Profile.Name, Endpoints: endpoints(g.Endpoints[:g.Picked]), Fallbacks: endpoints(g.Endpoints[g.Picked:]),
			PickId: g.Reservation.PickID(),
		})
	}
	out.SkippedStages = skipped(d.Plan.Skipped)
	return out
}

// skipped are the stages that other endpoints do not do.
func skipped(all []route.Skip) []*routerv1.SkippedStage {
	var out []*routerv1.SkippedStage
	for _, s := range all {
		out = append(out, &routerv1.SkippedStage{
			Stage: s.Stage, Reason: string(s.Reason), Text: s.Words, PromptTokenCount: counted(s.PromptTokens), CachedTokenCount: counted(s.CachedTokens),
		})
	}
	return out
}

// counted leaves out what is not known.
func counted(n int64) *uint32 {
	if n < 0 {
		return nil
	}
	v := count(n)
	return &v
}
