package profile

import "github.com/pointsman/pointsman/services/router/internal/route"

// Type names of the deciders that go by the kind of request alone.
const (
	AlwaysType      = "always-disagg-pd-decider"
	AlwaysMediaType = "always-disagg-multimodal-decider"
)

// Always says yes.
type Always struct{ name string }

// NewAlways returns the decider.
func NewAlways(name string) *Always { return &Always{name} }

// Name returns the plug-in's name in the configuration.
func (d *Always) Name() string { return d.name }

// Decide implements Decider.
func (*Always) Decide(*route.Cycle, *route.ProfileResult) Verdict { return yes() }

// AlwaysMedia says yes to requests with images, video or audio.
type AlwaysMedia struct{ name string }

// NewAlwaysMedia returns the decider.
func NewAlwaysMedia(name string) *AlwaysMedia { return &AlwaysMedia{name} }

// Name returns the plug-in's name in the configuration.
func (d *AlwaysMedia) Name() string { return d.name }

// Decide implements Decider.
func (*AlwaysMedia) Decide(c *route.Cycle, _ *route.ProfileResult) Verdict {
	if !c.Request.Media {
		return no("there is no image, video or audio in it")
	}
	return yes()
}
