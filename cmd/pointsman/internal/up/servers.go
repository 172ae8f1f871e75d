package up

import (
	"context"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/sim/modelserver"
)

func serverName(i int) string { return "server-" + strconv.Itoa(i+1) }

// modelServer runs a simulated model server.
func (m *machine) modelServer(i int) run.Part {
	return func(ctx context.Context, ready func()) error {
		cfg := modelserver.DefaultConfig()
		cfg.Name, cfg.Model, cfg.TimeScale, cfg.Log = serverName(i), m.cfg.Model, m.cfg.Speed, m.log
		cfg.Transfer = m.cfg.transfer()
		s, err := modelserver.New(cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx, func() {
			m.book.set(serverName(i), s.Address())
			ready()
		})
	}
}
