package app

import (
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/outcome"
	"github.com/pointsman/pointsman/services/router/internal/remote"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// reports lets the ledger tell outcomes to the scorers that want them by call.
type reports struct{ set *remote.Set }

// Picked begins a report; nil if no scorer wants one.
func (r reports) Picked(c *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) outcome.Reporter {
	if report := r.set.Picked(c, e, res); report != nil {
		return report
	}
	return nil
}
