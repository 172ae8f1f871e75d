package extproc

import (
	"strconv"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/usage"
)

// responseHeaders begins the answer.
func (x *exchange) responseHeaders() error {
	if x.response != expected {
		return x.neutral()
	}
	x.response, x.answered = passing, true
	var contentType, encoding, reason string
	var strip []string
	for name, value := range x.in.Headers.All {
		switch name = lower(name); name {
		case ":status":
			x.status, _ = strconv.Atoi(value)
		case "content-type":
			contentType = value
		case "content-encoding":
			encoding = value
		case edge.HeaderReason:
			reason = value
			strip = append(strip, name)
		case edge.HeaderObjective, edge.HeaderFairness, x.s.cfg.DestinationHeader:
			strip = append(strip, name)
		default:
			if edge.Routing(name) {
				strip = append(strip, name)
			}
		}
	}
	end := x.in.EndOfStream
	if !end && x.responseMode != wire.None {
		x.meter = usage.New(contentType, encoding)
	}
	x.heed()
	x.judge(reason)
	set := x.tokens()
	if len(strip) > 0 || len(set) > 0 {
		x.out.Mutate(wire.ResponseHeaders, &wire.Mutation{Set: set, Remove: strip})
	} else {
		x.out.Neutral(wire.ResponseHeaders)
	}
	err := x.send()
	if x.responseMode == wire.None && x.status < 400 {
		x.begins() // nothing later will be seen
	}
	if end {
		x.response = ended
		x.close()
	}
	return err
}

// tokens are the headers by which the client's next request finds the endpoint again.
func (x *exchange) tokens() []wire.Header {
	if x.decision == nil || x.status >= 500 { // a client is not sent back to who failed it
		return nil
	}
	var set []wire.Header
	for _, h := range x.decision.ResponseHeaders(x.endpoint) {
		set = append(set, wire.Header{Name: h.Name, Value: h.Value})
	}
	return set
}
