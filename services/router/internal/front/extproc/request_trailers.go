package extproc

import "github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"

// requestTrailers ends the request.
func (x *exchange) requestTrailers() error {
	if x.request != collecting {
		x.request = ended
		return x.neutral()
	}
	x.readSubset()
	if f := x.settle(false); f != nil {
		return x.refuse(f)
	}
	x.request = ended
	if x.more() {
		if err := x.answerBody(false); err != nil {
			return err
		}
		return x.neutral()
	}
	// There was no body, and the headers were answered before it was decided.
	x.out.Mutate(wire.RequestTrailers, &wire.Mutation{Metadata: x.change.Metadata})
	return x.send()
}
