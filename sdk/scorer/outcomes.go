package scorer

import (
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// checkOutcomes finds the first rule that a batch breaks. Events that are not
// known are no fault.
func checkOutcomes(req *scorerv1.ReportOutcomesRequest) error {
	switch n := len(req.GetOutcomes()); {
	case req.GetRouterId() == "":
		return InvalidRequest("router_id: missing")
	case req.GetBatchSequence() == 0:
		return InvalidRequest("batch_sequence: missing; it counts from 1")
	case n == 0 || n > MaxOutcomes:
		return InvalidRequest("outcomes: %d, want 1 to %d", n, MaxOutcomes)
	}
	for i, o := range req.GetOutcomes() {
		switch {
		case o.GetRequestId() == "" || len(o.GetRequestId()) > MaxIDBytes:
			return InvalidRequest("outcomes[%d].request_id: %d bytes, want 1 to %d", i, len(o.GetRequestId()), MaxIDBytes)
		case o.GetEndpointId() == "" || len(o.GetEndpointId()) > MaxIDBytes:
			return InvalidRequest("outcomes[%d].endpoint_id: %d bytes, want 1 to %d", i, len(o.GetEndpointId()), MaxIDBytes)
		case !o.GetEventTime().IsValid():
			return InvalidRequest("outcomes[%d].event_time: missing or out of range", i)
		}
	}
	return nil
}
