package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
)

// configuration holds the EndpointPickerConfig in use and replaces it. Safe for
// concurrent use.
type configuration struct {
	routerID string
	origin   origin
	load     func(source string, text []byte) (*epconfig.Loaded, error)
	use      func(*epconfig.Loaded)
	log      *slog.Logger
	metrics  *configMetrics

	loading sync.Mutex // one load at a time

	mu        sync.Mutex
	inUse     *epconfig.Loaded // nil before the first
	text      []byte           // what it was loaded from
	loadedAt  time.Time
	loads     uint64
	refused   []byte // text of the last refusal; nil: there was no text
	refusal   epconfig.Faults
	refusedAt time.Time // zero: the newest attempt was not refused
}

// newConfiguration returns a configuration of which nothing is in use. load makes one
// of a text, and use takes it over.
func newConfiguration(routerID string, o origin, load func(string, []byte) (*epconfig.Loaded, error), use func(*epconfig.Loaded), tel *telemetry.Telemetry) (*configuration, error) {
	c := &configuration{routerID: routerID, origin: o, load: load, use: use, log: tel.Log}
	var err error
	c.metrics, err = newConfigMetrics(tel.Meter, c)
	return c, err
}

// begin takes the text that the router was started with into use.
func (c *configuration) begin() error {
	c.loading.Lock()
	defer c.loading.Unlock()
	loaded, err := c.load(c.origin.source, c.origin.text)
	if err != nil {
		return err
	}
	c.accept(loaded, c.origin.text)
	return nil
}

// replace takes another text into use, or refuses it and leaves the old one. err is
// why there is no text. A text that was judged last time is judged again only if
// again is set.
func (c *configuration) replace(text []byte, err error, again bool) {
	c.loading.Lock()
	defer c.loading.Unlock()
	if err == nil && !again && c.known(text) {
		return
	}
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("the file is empty, which is probably not meant; start the router without it to use the built-in default")
	}
	var loaded *epconfig.Loaded
	if err == nil {
		loaded, err = c.load(c.origin.source, text)
	}
	if err != nil {
		c.refuse(text, err)
		return
	}
	c.accept(loaded, text)
}

// known says whether a text is in use, or was refused in the newest attempt.
func (c *configuration) known(text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusedAt.IsZero() {
		return bytes.Equal(text, c.text)
	}
	return c.refused != nil && bytes.Equal(text, c.refused)
}

func (c *configuration) accept(loaded *epconfig.Loaded, text []byte) {
	for _, n := range loaded.Infos {
		c.log.Info("configuration", "note", n.String())
	}
	for _, n := range loaded.Warnings {
		c.log.Warn("configuration", "note", n.String())
	}
	c.use(loaded)
	c.mu.Lock()
	c.inUse, c.text, c.loadedAt = loaded, text, time.Now()
	c.loads++
	c.refused, c.refusal, c.refusedAt = nil, nil, time.Time{}
	loads := c.loads
	c.mu.Unlock()
	if loads > 1 {
		c.metrics.count(loadedResult)
	}
	c.log.Info("configuration in use", "source", c.origin.source, "profiles", len(loaded.Config.Profiles), "loads", loads)
	c.log.Debug("effective configuration", "text", string(loaded.Effective))
}

func (c *configuration) refuse(text []byte, err error) {
	var faults epconfig.Faults
	if !errors.As(err, &faults) {
		faults = epconfig.Faults{{Source: c.origin.source, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	for _, f := range faults {
		c.log.Error("configuration refused", "fault", f.String())
	}
	c.log.Error("the configuration before stays in use", "source", c.origin.source, "faults", len(faults))
	c.metrics.count(refusedResult)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused, c.refusal, c.refusedAt = text, faults, time.Now()
}

// status is what an operator can see of it.
func (c *configuration) status() *routerv1.GetConfigStatusResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &routerv1.GetConfigStatusResponse{RouterId: c.routerID, Source: c.origin.source, LoadCount: c.loads, Reload: c.origin.words()}
	if c.inUse != nil {
		s.LoadTime, s.EffectiveText, s.Warnings = timestamppb.New(c.loadedAt), string(c.inUse.Effective), notices(stillTrue(c.inUse.Warnings))
	}
	if !c.refusedAt.IsZero() {
		s.LastRefused = &routerv1.RefusedConfig{RefuseTime: timestamppb.New(c.refusedAt), Faults: notices(c.refusal)}
	}
	return s
}

// stillTrue leaves out the warnings that do not hold any more, such as those about scorers
// that have been reached since.
func stillTrue(warnings []epconfig.Notice) []epconfig.Notice {
	return slices.DeleteFunc(slices.Clone(warnings), func(n epconfig.Notice) bool { return n.Over != nil && n.Over() })
}

// part loads the configuration and follows what it came from. It comes after the
// scorers have begun to connect, since they say which types and parameters there are.
func (c *configuration) part(ctx context.Context, ready func()) error {
	hangups, done := catchHangups()
	defer done()
	if err := c.begin(); err != nil {
		return err
	}
	ready()
	return c.follow(ctx, hangups)
}
