package allow

import (
	"errors"
	"log/slog"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

var errNoTable = errors.New("no endpoint table yet, so that nobody may be called: is a metrics-collector of this pool running?")

// Follow has the list kept in step with the tables on the bus, which must not run yet.
// The service is not ready before one was heard.
func (l *List) Follow(b *bus.Bus, health *telemetry.Health, log *slog.Logger) {
	health.Set("endpoints", errNoTable)
	bus.Subscribe(b, bus.Table, func() *statev1.EndpointTable { return &statev1.EndpointTable{} }, func(m *statev1.EndpointTable, meta bus.Meta) {
		t, err := follower.TableFromProto(m)
		if err != nil {
			log.Warn("a table cannot be used", "error", err)
			return
		}
		first := !l.Heard()
		l.Hear(m.GetStamp().GetPublisherId(), t, meta.Received)
		if first {
			health.Set("endpoints", nil)
		}
	})
}
