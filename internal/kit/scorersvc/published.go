package scorersvc

import (
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Published returns the contract of a service that does not run: GetScorerInfo and
// ValidateParameters answer as they would if it ran with these settings, for those
// who check configurations and write reference pages. Scores are not to be asked for.
func Published(name string, settings Settings, types Types) (scorerv1.ScorerServiceServer, error) {
	s, err := newService(name, *settings.Common(), telemetry.Discard())
	if err != nil {
		return nil, err
	}
	served, err := types(s)
	if err != nil {
		return nil, err
	}
	return s.contract(name, served)
}
