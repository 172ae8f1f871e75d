package profile

import (
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// SingleType is the type name of Single.
const SingleType = "single-profile-handler"

// Single runs the only profile once; its result is the request's.
type Single struct{ name string }

// NewSingle returns a handler.
func NewSingle(name string) *Single { return &Single{name: name} }

// Name returns the plug-in's name in the configuration.
func (h *Single) Name() string { return h.name }

// CheckProfiles says whether the handler can serve a configuration with profiles of
// these names.
func (h *Single) CheckProfiles(names []string) error {
	if len(names) > 1 {
		return fmt.Errorf("%s is for a single profile, and there are %d: %s", h.name, len(names), strings.Join(names, ", "))
	}
	return nil
}

// Next returns the profiles until they have run.
func (h *Single) Next(_ *route.Cycle, profiles []*route.Profile, done []*route.ProfileResult) []*route.Profile {
	if len(done) > 0 {
		return nil
	}
	return profiles
}

// Primary returns the only result.
func (h *Single) Primary(_ *route.Cycle, done []*route.ProfileResult) (*route.ProfileResult, error) {
	if len(done) != 1 {
		return nil, fmt.Errorf("%w: %s is for one profile, and %d ran", route.ErrNoEndpoint, h.name, len(done))
	}
	return done[0], nil
}
