package roster

import (
	"math"
	"time"
)

// Never is the ObservedAt of an endpoint whose figures were never read.
const Never = math.MinInt64

// Unknown is the value of a figure that is not known.
const Unknown = -1

// Adapters is what an endpoint said of its LoRA adapters. It is immutable.
type Adapters struct {
	// Running are the adapters in the running batch, ascending.
	Running []string
	// Waiting are those that only waiting requests need, ascending.
	Waiting []string
	// Max is how many fit at once.
	Max uint32
}

// Snapshot is one immutable view of a table with the newest loads. Entry i of each
// column is the endpoint at position i. Columns are not to be changed.
type Snapshot struct {
	// Table is never nil.
	Table *Table
	// Waiting counts requests admitted but not yet running; Unknown if not known.
	Waiting []int32
	// Running counts requests in the running batch; Unknown if not known.
	Running []int32
	// KV is the share of KV-cache blocks in use, 0..1; Unknown if not known.
	KV []float32
	// ObservedAt is when the scrape that read the figures began, in ns of the
	// roster's clock; Never if none did.
	ObservedAt []int64
	// Adapters are nil where the page tells of none.
	Adapters []*Adapters

	live      []slot
	staleness int64
}

// Len returns the number of endpoints.
func (s *Snapshot) Len() int { return len(s.Table.Endpoints) }

// InFlight returns the picks on the endpoint that have not ended, of all routers
// known. It is live: it changes under the snapshot.
func (s *Snapshot) InFlight(pos int) int64 { return s.live[pos].inFlight().Load() }

// InFlightOf is InFlight of each of the positions; into has their length.
func (s *Snapshot) InFlightOf(positions []int32, into []int64) {
	into = into[:len(positions)]
	for i, pos := range positions {
		into[i] = s.live[pos].inFlight().Load()
	}
}

// InFlightTokens returns the uncached prompt tokens of those picks. It is live.
func (s *Snapshot) InFlightTokens(pos int) int64 { return s.live[pos].inFlightTokens().Load() }

// Credited is the first result of Credit, for those who need no more.
func (s *Snapshot) Credited(pos int) int64 { return s.live[pos].credit().Load() }

// CreditedTokens is the second result of Credit, for those who need no more.
func (s *Snapshot) CreditedTokens(pos int) int64 { return s.live[pos].creditTokens().Load() }

// Credit returns the picks that the endpoint's figures cannot include yet, and
// their uncached prompt tokens. It is live.
func (s *Snapshot) Credit(pos int) (requests, uncachedTokens int64) {
	return s.Credited(pos), s.CreditedTokens(pos)
}

// FreshSince returns the ObservedAt from which on figures are Fresh at now.
func (s *Snapshot) FreshSince(now int64) int64 { return max(now-s.staleness, Never+1) }

// Fresh says whether the endpoint's figures were read and are younger than the
// staleness limit. now is on the roster's clock.
func (s *Snapshot) Fresh(pos int, now int64) bool {
	at := s.ObservedAt[pos]
	return at != Never && now-at <= s.staleness
}

// Age returns the age of the endpoint's figures; negative if they were never read.
func (s *Snapshot) Age(pos int, now int64) time.Duration {
	if s.ObservedAt[pos] == Never {
		return -1
	}
	return time.Duration(max(0, now-s.ObservedAt[pos]))
}
