package state

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Follower knows the endpoints of a pool. Safe for concurrent use.
type Follower struct {
	roster *roster.Roster
	tel    *telemetry.Telemetry
	parts  *run.Group
}

// New returns a follower that knows nobody yet; it starts nothing.
func New(cfg Config) (*Follower, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("follow the pool's state: %w", err)
	}
	c := telemetry.DefaultConfig()
	c.Admin.Address = ""
	tel, err := telemetry.New(cfg.Name, "", c, io.Discard)
	if err != nil {
		return nil, err
	}
	tel.Log = cfg.Log
	if tel.Log == nil {
		tel.Log = slog.New(slog.DiscardHandler)
	}
	f := &Follower{roster: roster.New(roster.Config{StalenessLimit: cfg.StalenessLimit}), tel: tel, parts: run.NewGroup(tel.Log)}
	b, err := bus.New(cfg.nats(), cfg.Pool, bus.NewPublisherID(cfg.Name), tel)
	if err != nil {
		return nil, err
	}
	followed, err := follower.New(f.roster, b, tel)
	if err != nil {
		return nil, err
	}
	f.parts.Add("bus", b.Part())
	f.parts.Add("follower", followed.Part())
	return f, nil
}

// Run connects, connects again when the connection is lost, and follows until ctx
// ends. It can be called once.
func (f *Follower) Run(ctx context.Context) error { return f.parts.Run(ctx) }

// Ready says whether the state is there and kept, and if not, why.
func (f *Follower) Ready() (ready bool, reason string) {
	ready, reasons := f.tel.Health.Ready()
	return ready, strings.Join(reasons, "; ")
}

// OnReady has tell called now and whenever Ready changes. With a server of package
// simple, its SetReady fits.
func (f *Follower) OnReady(tell func(ready bool)) { f.tel.Health.Subscribe(tell) }

// Endpoints returns everybody, in the order of the table.
func (f *Follower) Endpoints() []Endpoint {
	s, now := f.roster.Snapshot(), f.roster.Now()
	all := make([]Endpoint, s.Len())
	for i := range all {
		all[i] = endpointAt(s, i, now)
	}
	return all
}

// Candidates returns who a call is about, in the order in which scores are wanted,
// however the call names them. Listed candidates that are not in the table are not
// Known. Errors are those of the contract: the table is not held here, or has no such
// position.
func (f *Follower) Candidates(req *scorerv1.ScoreRequest) ([]Endpoint, error) {
	now := f.roster.Now()
	ref := req.GetTable()
	if ref == nil {
		return f.listed(req.GetListed().GetCandidates(), now), nil
	}
	s, ok := f.roster.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return nil, scorer.TableNotHeld(ref.GetTableDigest())
	}
	positions := ref.GetPositions()
	if len(positions) == 0 {
		all := make([]Endpoint, s.Len())
		for i := range all {
			all[i] = endpointAt(s, i, now)
		}
		return all, nil
	}
	some := make([]Endpoint, len(positions))
	for i, pos := range positions {
		if int64(pos) >= int64(s.Len()) {
			return nil, scorer.InvalidRequest("table.positions[%d]: %d is not in the table, which has %d endpoints", i, pos, s.Len())
		}
		some[i] = endpointAt(s, int(pos), now)
	}
	return some, nil
}

func (f *Follower) listed(candidates []*scorerv1.Candidate, now int64) []Endpoint {
	s := f.roster.Snapshot()
	some := make([]Endpoint, len(candidates))
	for i, c := range candidates {
		some[i] = unknown(c.GetEndpointId())
		if pos, ok := s.Table.Position(roster.ID(c.GetEndpointId())); ok {
			some[i] = endpointAt(s, pos, now)
		}
	}
	return some
}
