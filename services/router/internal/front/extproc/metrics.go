package extproc

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// modeCount is the modes with those of the future, which are one.
const modeCount = 7

// instruments are the front's metrics.
type instruments struct {
	*edge.Meter

	streams   metric.Int64Counter
	decisions metric.Int64Counter
	moves     metric.Int64Counter
	unwritten metric.Int64Counter

	// Label sets made beforehand, so that counting allocates nothing.
	modes [modeCount][]metric.AddOption
	bases [bases][]metric.AddOption
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := new(instruments)
	var errs [5]error
	i.Meter, errs[0] = edge.NewMeter(m, "extproc", "From the beginning of a stream to its end.")
	i.streams, errs[1] = m.Int64Counter("pointsman_router_extproc_streams_total",
		metric.WithDescription("Streams, by the mode in which the proxy sends request bodies."))
	i.decisions, errs[2] = m.Int64Counter("pointsman_router_extproc_decisions_total",
		metric.WithDescription("Picks, by what they were made on: the whole request (body), its headers, the beginning of its body (part), "+
			"its headers because the body was late (hurry), the load alone because no scorer gave scores in time (cheap)."))
	i.moves, errs[3] = m.Int64Counter("pointsman_router_extproc_moves_total",
		metric.WithDescription("Requests that another endpoint has served than the one that was picked."))
	i.unwritten, errs[4] = m.Int64Counter("pointsman_router_extproc_unrewritten_total",
		metric.WithDescription("Requests that went on with the client's model although another was to take its place: the proxy did not send all of the body first."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the ext_proc front's metrics: %w", err)
	}
	for m := range i.modes {
		i.modes[m] = []metric.AddOption{edge.Label(attribute.String("mode", wire.Mode(m).String()))} //nolint:gosec // few
	}
	for b, name := range basisNames {
		i.bases[b] = []metric.AddOption{edge.Label(attribute.String("basis", name))}
	}
	return i, nil
}

func (i *instruments) mode(m wire.Mode) {
	i.streams.Add(context.Background(), 1, i.modes[min(m, modeCount-1)]...)
}

func (i *instruments) decided(b basis) { i.decisions.Add(context.Background(), 1, i.bases[b]...) }

func (i *instruments) unrewritten() { i.unwritten.Add(context.Background(), 1) }

func (i *instruments) moved() { i.moves.Add(context.Background(), 1) }
