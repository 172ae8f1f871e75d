package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

const (
	chunkSize = 32 << 10
	// savedMax is the longest error answer of an endpoint that is kept in case no
	// other endpoint does better. A longer one is passed on at once.
	savedMax = 64 << 10
)

// answer is an answer whose first bytes have come.
type answer struct {
	from  *roster.Endpoint
	ctx   context.Context // the attempt's; its cause tells who cancelled it
	resp  *http.Response
	dog   *watchdog
	chunk *[]byte // what it is read into
	n     int     // bytes of it that were read
	ended bool    // there are no more
	// passed is true for the answer of an endpoint that was to prefill: it is passed on
	// as the request's.
	passed bool
}

// savedAnswer is an endpoint's error answer, whole.
type savedAnswer struct {
	from   *roster.Endpoint
	status int
	header http.Header
	body   []byte
}

// fault is why an attempt has failed before the first byte.
type fault struct {
	why edge.Reason
	err error
}

// attempt sends the request to the endpoint and waits for the first byte. last says
// that whatever comes is to be passed on.
func (x *exchange) attempt(e *roster.Endpoint, last bool) (*answer, *fault) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	a := &answer{from: e, ctx: ctx, dog: newWatchdog(cancel, x.p.cfg.FirstByteTimeout.D())}
	began := time.Now()
	x.dog = a.dog
	if err := x.reach(ctx, a); err != nil {
		return nil, x.failed(a, err)
	}
	resp := a.resp
	last = last || a.passed
	if resp.StatusCode < 200 || resp.StatusCode > 999 {
		return nil, x.failed(a, fmt.Errorf("answered with the status %d", resp.StatusCode))
	}
	a.chunk, _ = x.p.chunks.Get().(*[]byte)
	if !last && slices.Contains(x.p.cfg.RetryStatuses, resp.StatusCode) {
		whole, err := x.save(a)
		switch {
		case err != nil:
			return nil, x.failed(a, err)
		case whole:
			status := resp.StatusCode
			x.close(a)
			return nil, &fault{edge.BadAnswer, fmt.Errorf("answered %d", status)}
		}
	}
	for a.n == 0 && !a.ended {
		if err := a.read(); err != nil {
			return nil, x.failed(a, err)
		}
	}
	a.dog.begins()
	x.p.metrics.firstByte.Record(x.ctx, time.Since(began).Seconds())
	return a, nil
}

// read reads the next bytes of the answer.
func (a *answer) read() error {
	n, err := a.resp.Body.Read((*a.chunk)[a.n:])
	a.n += n
	if errors.Is(err, io.EOF) {
		a.ended = true
		return nil
	}
	return err
}

// save keeps an error answer. It returns false if the answer is too long to be kept;
// then its beginning is in the chunk.
func (x *exchange) save(a *answer) (whole bool, err error) {
	var body []byte
	for !a.ended {
		a.n = 0
		if err := a.read(); err != nil {
			return false, err
		}
		body = append(body, (*a.chunk)[:a.n]...)
		if len(body) > savedMax {
			*a.chunk, a.n = body, len(body)
			return false, nil
		}
	}
	x.saved = &savedAnswer{from: a.from, status: a.resp.StatusCode, header: a.resp.Header, body: body}
	return true, nil
}

// failed tells why an attempt has failed.
func (x *exchange) failed(a *answer, err error) *fault {
	cause := context.Cause(a.ctx)
	x.close(a)
	var op *net.OpError
	var prefill *disagg.PrefillError
	var encode *disagg.EncodeError
	switch {
	case x.ctx.Err() != nil:
		return &fault{edge.Cancelled, x.ctx.Err()}
	case errors.As(err, &prefill):
		return &fault{edge.PrefillFailed, err}
	case errors.As(err, &encode):
		return &fault{edge.EncodeFailed, err}
	case errors.Is(cause, errFirstByteTimeout):
		return &fault{edge.FirstByteTimeout, cause}
	case errors.As(err, &op) && op.Op == "dial":
		return &fault{edge.ConnectFailed, err}
	default:
		return &fault{edge.Reset, err}
	}
}

// close lets go of an answer; what has not come of it is cancelled.
func (x *exchange) close(a *answer) {
	a.dog.stop()
	if a.resp != nil {
		_ = a.resp.Body.Close()
	}
	if a.chunk != nil && cap(*a.chunk) == chunkSize {
		x.p.chunks.Put(a.chunk)
	}
	a.chunk = nil
}
