package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say what to ask about.
type Options struct {
	// Type is the scorer type to check; empty for all that are served.
	Type string
	// Checks are the ids of the only checks to run; empty for all.
	Checks []string
	// Parameters are given to every type, as JSON; empty for none.
	Parameters []byte
	// Endpoints are ids that the scorer knows, for scorers that follow the broadcast
	// and have no opinion on others.
	Endpoints []string
	// Labels are values that endpoints have in turn, by label name, and Headers the
	// request's, beside those that are made up.
	Labels  map[string][]string
	Headers map[string]string
	// Timeout is the deadline of one call. Default 5 s.
	Timeout time.Duration
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options { return Options{Timeout: 5 * time.Second} }

// Validate returns all faults at once.
func (o Options) Validate() error {
	var errs []error
	if o.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("the timeout must be above 0, not %v", o.Timeout))
	}
	all := Checks()
	for _, id := range o.Checks {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.ID == id }) {
			errs = append(errs, fmt.Errorf("there is no check %q", id))
		}
	}
	return errors.Join(errs...)
}

// wants says whether a check is to be run.
func (o Options) wants(c Check) bool { return len(o.Checks) == 0 || slices.Contains(o.Checks, c.ID) }
