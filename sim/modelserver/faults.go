package modelserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Faults are what goes wrong with a server. The zero value is a healthy one. Probabilities are per request, from 0 to 1,
// and are drawn in the order of the fields.
type Faults struct {
	// ScrapeDelay is how long /metrics waits, in real time, before it answers.
	ScrapeDelay Duration `json:"scrapeDelay"`
	// ScrapeStatus is what /metrics answers with; 0 means 200 and the page.
	ScrapeStatus int `json:"scrapeStatus"`
	// HealthStatus is what /health answers with; 0 means 200.
	HealthStatus int `json:"healthStatus"`
	// ErrorProbability makes requests to /v1 fail at once with ErrorStatus; 0 means 500.
	ErrorProbability float64 `json:"errorProbability"`
	ErrorStatus      int     `json:"errorStatus"`
	// HangProbability makes requests to /v1 hang before any header is sent. They go on when the faults are changed.
	HangProbability float64 `json:"hangProbability"`
	// StreamHangProbability makes answers hang after StreamTokens tokens of a stream, or half of a whole answer's bytes.
	// They go on when the faults are changed.
	StreamHangProbability float64 `json:"streamHangProbability"`
	// StreamDropProbability closes the connection at that place.
	StreamDropProbability float64 `json:"streamDropProbability"`
	// StreamTokens is after how many tokens; 0 hangs or drops after the headers.
	StreamTokens int `json:"streamTokens"`
	// EmptyPrefillProbability makes prefill legs fail within an answer of status 200: its finish_reason is "error", and it
	// has no kv_transfer_params.
	EmptyPrefillProbability float64 `json:"emptyPrefillProbability"`
	// TransferRefuseProbability makes this server not know the blocks that others come for, as after a restart.
	TransferRefuseProbability float64 `json:"transferRefuseProbability"`
	// TransferHangProbability makes transfers of this server's blocks hang half-way. They go on when the faults are changed.
	TransferHangProbability float64 `json:"transferHangProbability"`
	// TransferDropProbability closes the connection at that place.
	TransferDropProbability float64 `json:"transferDropProbability"`
	// BootstrapStatus is what Mooncake's bootstrap server answers with; 0 means 200.
	BootstrapStatus int `json:"bootstrapStatus"`
	// Slowdown makes the engine so many times slower; 0 and 1 do not.
	Slowdown float64 `json:"slowdown"`
	// Freeze stops the engine's time: requests are taken in and wait.
	Freeze bool `json:"freeze"`
}

// Validate reports all faults of f at once.
func (f Faults) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	for _, p := range []struct {
		name  string
		value float64
	}{
		{"errorProbability", f.ErrorProbability}, {"hangProbability", f.HangProbability},
		{"streamHangProbability", f.StreamHangProbability}, {"streamDropProbability", f.StreamDropProbability},
		{"emptyPrefillProbability", f.EmptyPrefillProbability}, {"transferRefuseProbability", f.TransferRefuseProbability},
		{"transferHangProbability", f.TransferHangProbability}, {"transferDropProbability", f.TransferDropProbability},
	} {
		check(p.value >= 0 && p.value <= 1, "fault %s %v: must be from 0 to 1", p.name, p.value)
	}
	for _, s := range []struct {
		name   string
		status int
	}{
		{"scrapeStatus", f.ScrapeStatus}, {"healthStatus", f.HealthStatus}, {"errorStatus", f.ErrorStatus}, {"bootstrapStatus", f.BootstrapStatus},
	} {
		check(s.status == 0 || s.status >= 200 && s.status <= 599, "fault %s %d: must be 0 or from 200 to 599", s.name, s.status)
	}
	check(f.ScrapeDelay >= 0, "fault scrapeDelay: must not be negative")
	check(f.StreamTokens >= 0, "fault streamTokens %d: must not be negative", f.StreamTokens)
	check(f.Slowdown == 0 || f.Slowdown >= 1, "fault slowdown %v: must be 0 or at least 1", f.Slowdown)
	return errors.Join(faults...)
}

// slowdown is the factor in force; 0 stands for a frozen engine.
func (f Faults) slowdown() float64 {
	switch {
	case f.Freeze:
		return 0
	case f.Slowdown == 0:
		return 1
	}
	return f.Slowdown
}

// plan is what will go wrong with one request.
type plan struct {
	status     int // answer with it at once; 0 means do not
	hang       bool
	streamHang bool
	streamDrop bool
	empty      bool            // fail a prefill leg within its answer
	after      int             // tokens
	changed    <-chan struct{} // closed when the faults change: what hangs goes on
}

// midway says whether the answer is to be interrupted.
func (p plan) midway() bool { return p.streamHang || p.streamDrop }

// faultBox holds the faults in force.
type faultBox struct {
	mu      sync.Mutex
	faults  Faults
	changed chan struct{} // closed when the faults change
	rng     *rand.Rand
}

func newFaultBox(f Faults, seed uint64) *faultBox {
	return &faultBox{faults: f, changed: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 0))}
}

func (b *faultBox) get() Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

func (b *faultBox) set(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = f
	close(b.changed)
	b.changed = make(chan struct{})
}

// draw decides the fate of a request.
func (b *faultBox) draw() plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	hit := func(p float64) bool { return p > 0 && b.rng.Float64() < p }
	f := b.faults
	p := plan{after: f.StreamTokens, changed: b.changed}
	if hit(f.ErrorProbability) {
		if p.status = f.ErrorStatus; p.status == 0 {
			p.status = 500
		}
	}
	p.hang = hit(f.HangProbability)
	p.streamHang = hit(f.StreamHangProbability)
	p.streamDrop = hit(f.StreamDropProbability)
	p.empty = hit(f.EmptyPrefillProbability)
	return p
}

// drawTransfer decides the fate of a transfer. refuse, hang and drop are what goes wrong with it.
func (b *faultBox) drawTransfer() (refuse bool, p plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hit := func(p float64) bool { return p > 0 && b.rng.Float64() < p }
	refuse = hit(b.faults.TransferRefuseProbability)
	p = plan{changed: b.changed, streamHang: hit(b.faults.TransferHangProbability), streamDrop: hit(b.faults.TransferDropProbability)}
	return refuse, p
}
