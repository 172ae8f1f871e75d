package scorersvc

import (
	"context"
	"io"
	"os"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Types makes the types that a service serves, and adds the parts that they need. It
// is called once, when the settings are read, and starts nothing.
type Types func(s *Service) ([]scorer.Type, error)

// Run runs the service called name until ctx ends. args are the command line without
// the program's name; settings hold the defaults and are filled in before types is
// called; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer, name string, settings Settings, types Types) error {
	if err := load(name, args, stdout, settings); err != nil {
		return err
	}
	cfg := *settings.Common()
	tel, err := telemetry.New(name, "", cfg.Telemetry, os.Stderr)
	if err != nil {
		return err
	}
	s, err := newService(name, cfg, tel)
	if err != nil {
		return err
	}
	group, err := s.group(name, types, stdout)
	if err != nil {
		return err
	}
	return group.Run(ctx)
}
