package extproc

import (
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// refuse answers the client in the place of an endpoint and ends the stream.
func (x *exchange) refuse(f *edge.Refusal) error {
	x.over, x.why = true, f.Reason
	if f.Status == 0 {
		return nil
	}
	x.head.identify()
	x.s.log.Debug("request refused", "request_id", x.head.id, "status", f.Status, "reason", f.Reason.String())
	x.status = f.Status
	headers := []wire.Header{
		{Name: "content-type", Value: "application/json"}, {Name: edge.HeaderReason, Value: f.Reason.String()},
		{Name: edge.HeaderRequestID, Value: x.head.id},
	}
	if f.Retry {
		headers = append(headers, wire.Header{Name: "retry-after", Value: "1"})
	}
	x.out.Immediate(&wire.Immediate{Status: f.Status, Headers: headers, Body: f.Body(x.head.path), Details: "pointsman_" + f.Reason.Code()})
	return x.send()
}
