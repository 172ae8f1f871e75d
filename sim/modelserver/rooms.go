package modelserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// rooms are where the two legs of an SGLang request meet: the prefill leg comes as a request, the decode leg as the
// decode server that fetches the prompt.
type rooms struct {
	mu   sync.Mutex
	open map[int64]*room
}

// room is one of them. A leg that leaves before the prompt was handed over ends the other.
type room struct {
	number   int64
	legs     int
	leg      [2]bool       // which are in
	met      chan struct{} // closed when both are in
	computed chan struct{} // closed when the prompt can be fetched
	taken    chan struct{} // closed when it was
	gone     chan struct{} // closed when a leg has left before
	closed   map[chan struct{}]bool

	name   string // of the prompt, once it is computed
	tokens int
	seed   uint64
}

const (
	prefillLeg = 0
	decodeLeg  = 1
)

func newRooms() *rooms { return &rooms{open: make(map[int64]*room)} }

// enter returns the room for one of the legs. ok is false when that leg is in already.
func (r *rooms) enter(number int64, leg int) (x *room, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x = r.open[number]
	if x == nil {
		x = &room{number: number, met: make(chan struct{}), computed: make(chan struct{}), taken: make(chan struct{}), gone: make(chan struct{}),
			closed: make(map[chan struct{}]bool)}
		r.open[number] = x
	}
	if x.leg[leg] {
		return nil, false
	}
	x.leg[leg] = true
	x.legs++
	if x.leg[prefillLeg] && x.leg[decodeLeg] {
		x.shut(x.met)
	}
	return x, true
}

func (x *room) shut(c chan struct{}) {
	if !x.closed[c] {
		x.closed[c] = true
		close(c)
	}
}

// tell closes one of the room's channels.
func (r *rooms) tell(x *room, c chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.shut(c)
}

func (r *rooms) leave(x *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !x.closed[x.taken] {
		x.shut(x.gone)
	}
	if x.legs--; x.legs == 0 {
		delete(r.open, x.number)
	}
}

func (r *rooms) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// await waits for one of a room's channels.
func (x *room) await(ctx context.Context, c <-chan struct{}, limit time.Duration) *apiError {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var why string
	select {
	case <-c:
		return nil
	case <-x.gone:
		why = "the other leg has ended"
	case <-timer.C:
		why = "the other leg did not come in time"
	case <-ctx.Done():
		why = "the request was aborted"
	}
	return &apiError{http.StatusInternalServerError, "InternalServerError", "", fmt.Sprintf("Bootstrap room %d: %s.", x.number, why)}
}

// roomRequest is what a decode server comes with.
type roomRequest struct {
	Room   int64
	Tokens int
	Seed   uint64
}

// room hands a prompt over to the decode server that comes for it, as soon as it is computed.
func (s *Server) room(w http.ResponseWriter, r *http.Request) {
	var q roomRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	refuse, p := s.faults.drawTransfer()
	x, ok := s.rooms.enter(q.Room, decodeLeg)
	if ok {
		defer s.rooms.leave(x)
	}
	if refuse || !ok || s.cfg.Transfer.Mode != PrefillMode {
		s.driver.refused()
		(&apiError{http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("Bootstrap room %d is not open here.", q.Room)}).write(w)
		return
	}
	if fault := x.await(r.Context(), x.computed, s.driver.wall(s.cfg.Transfer.MeetFor)); fault != nil {
		fault.write(w)
		return
	}
	if x.tokens != q.Tokens || x.seed != q.Seed {
		s.driver.refused()
		badRequest("bootstrap_room", "The legs of bootstrap room %d have different prompts.", q.Room).write(w)
		return
	}
	if s.handOver(w, r, x.name, q.Tokens, p) {
		s.rooms.tell(x, x.taken)
	}
}

// roomFault is what is wrong with a request for a server that serves one leg only.
func (s *Server) roomFault(p *sampling, prompts int) *apiError {
	t := s.cfg.Transfer
	switch {
	case t.Mode == Unified:
		return nil
	case p.BootstrapRoom == nil:
		return badRequest("bootstrap_room", "Invalid request: Disaggregated request received without bootstrap room id.")
	case prompts != 1:
		return badRequest("prompt", "This server takes one prompt with a bootstrap room, got %d.", prompts)
	case t.Mode == DecodeMode && (p.BootstrapHost == "" || p.BootstrapPort < 1 || p.BootstrapPort > 65535):
		return badRequest("bootstrap_host", "Invalid request: bootstrap_host %q and bootstrap_port %d are not where a prefill server is.", p.BootstrapHost, p.BootstrapPort)
	}
	return nil
}

// prefill is the prefill leg from the meeting to the end of the transfer. It returns the generation, which is over.
func (s *Server) prefill(ctx context.Context, p *sampling, begin func() (*generation, *apiError)) (*generation, *apiError) {
	x, ok := s.rooms.enter(*p.BootstrapRoom, prefillLeg)
	if !ok {
		return nil, badRequest("bootstrap_room", "Bootstrap room %d is in use.", *p.BootstrapRoom)
	}
	defer s.rooms.leave(x)
	limit := s.driver.wall(s.cfg.Transfer.MeetFor)
	if fault := x.await(ctx, x.met, limit); fault != nil {
		return nil, fault
	}
	g, fault := begin()
	if fault != nil {
		return nil, fault
	}
	done := make(chan bool, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { done <- s.wait(waiting, g) }()
	select {
	case <-done:
	case <-x.gone: // nobody wants the prompt any more
		cancel()
		<-done
	}
	c := g.calls[0]
	if len(c.kept) == 0 {
		return nil, &apiError{http.StatusInternalServerError, "InternalServerError", "", fmt.Sprintf("Bootstrap room %d: the prompt was not computed.", x.number)}
	}
	x.name, x.tokens, x.seed = c.keepAs, g.sizes[0], g.seeds[0]
	s.rooms.tell(x, x.computed)
	if fault := x.await(ctx, x.taken, limit); fault != nil {
		s.driver.forget(c.keepAs)
		return nil, fault
	}
	return g, nil
}
