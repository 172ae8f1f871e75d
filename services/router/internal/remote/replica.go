package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/pointsman/pointsman/internal/kit/rpc"
)

const (
	firstPause = 100 * time.Millisecond // before connecting again
	longPause  = 2 * time.Second        // the pause doubles up to this
	longLife   = 10 * time.Second       // after which a session's end starts over
)

// replica is one process of a scorer service, known by its address.
type replica struct {
	service *service
	address string
	breaker *breaker
	outbox  *outbox
	open    atomic.Int64 // calls that it has not answered

	tried     atomic.Bool // the first attempt is over
	connected atomic.Bool // a session is on
	leaving   context.Context
	leave     context.CancelFunc // its address is gone: finish what is open, then stop

	mu       sync.Mutex
	reason   string // why no calls go to it
	version  string
	streams  bool
	noStream bool // it lists CAPABILITY_STREAM and has no ScoreStream
}

func newReplica(s *service, address string) *replica {
	r := &replica{service: s, address: address, breaker: newBreaker(s.set.breaker), reason: "not tried yet"}
	r.outbox = newOutbox(r)
	r.leaving, r.leave = context.WithCancel(context.Background())
	return r
}

// run keeps a session with the replica until ctx ends or it leaves.
func (r *replica) run(ctx context.Context) {
	defer r.leave()
	if r.service.target.embedded {
		r.runEmbedded(ctx)
		return
	}
	conn, err := rpc.Dial(r.address, r.service.client)
	if err != nil { // the TLS files: no attempt will go better
		r.lost(err)
		<-ctx.Done()
		return
	}
	defer conn.Close()
	pause := firstPause
	for {
		began := time.Now()
		err := r.session(ctx, connection{conn})
		if ctx.Err() != nil || r.leaving.Err() != nil {
			return
		}
		if time.Since(began) > longLife {
			pause = firstPause
		}
		r.lost(err)
		r.service.look()
		r.wait(ctx, conn, pause)
		pause = min(2*pause, longPause)
	}
}

// runEmbedded is run for a scorer in this process, which neither comes nor goes.
func (r *replica) runEmbedded(ctx context.Context) {
	if err := r.session(ctx, inProcess{*r.service.embedded}); ctx.Err() == nil && r.leaving.Err() == nil {
		r.lost(err) // it does not keep the contract: no attempt will go better
		<-ctx.Done()
	}
}

// wait passes the time before the next attempt. While the network refuses, the
// connection's own back-off says when that is.
func (r *replica) wait(ctx context.Context, conn *grpc.ClientConn, pause time.Duration) {
	if state := conn.GetState(); state == connectivity.TransientFailure {
		ctx, cancel := context.WithTimeout(ctx, longPause)
		defer cancel()
		stop := context.AfterFunc(r.leaving, cancel)
		defer stop()
		conn.WaitForStateChange(ctx, state)
		return
	}
	pause += time.Duration(rand.Int64N(int64(pause)))
	select {
	case <-ctx.Done():
	case <-r.leaving.Done():
	case <-time.After(pause):
	}
}

// lost notes that there is no session, and why. It is logged when it is news.
func (r *replica) lost(err error) {
	reason := cut(err.Error())
	r.mu.Lock()
	news := r.reason != reason
	r.reason = reason
	r.mu.Unlock()
	r.tried.Store(true)
	r.service.failed(fmt.Sprintf("%s: %s", r.address, reason))
	if news {
		r.service.set.tel.Log.Warn("scorer replica is not usable", "scorer", r.service.cfg.Name, "replica", r.address, "reason", reason)
	}
	r.service.set.change()
}

// found notes that a session has begun.
func (r *replica) found(s *session) {
	r.mu.Lock()
	r.reason, r.version, r.streams = "", s.info.version, s.streams
	r.mu.Unlock()
	r.tried.Store(true)
	r.service.set.tel.Log.Info("scorer replica is connected", "scorer", r.service.cfg.Name, "replica", r.address,
		"name", s.info.name, "version", s.info.version, "transport", string(s.transport()))
	r.service.set.change()
}

// hold notes why no calls go to the replica for now; empty if they do.
func (r *replica) hold(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reason = reason
}

// success tells the breaker that a call was answered.
func (r *replica) success(id uint64) {
	if r.breaker.success(id, time.Now()) {
		r.service.set.tel.Log.Info("scorer breaker is closed again", "scorer", r.service.cfg.Name, "replica", r.address)
	}
}

// failure tells the breaker that a call failed or was late.
func (r *replica) failure(id uint64, reason string) {
	r.service.failed(fmt.Sprintf("%s: %s", r.address, reason))
	if r.breaker.failure(id, time.Now()) {
		r.service.set.tel.Log.Warn("scorer breaker is open", "scorer", r.service.cfg.Name, "replica", r.address, "reason", reason)
	}
}
