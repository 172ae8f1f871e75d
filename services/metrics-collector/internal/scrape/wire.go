package scrape

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"

	"net"
	"net/http"
	"time"
)

const (
	maxHeaderBytes = 64 << 10
	wireBuffer     = 16 << 10
	maxInterim     = 5 // answers of status 1xx before the real one
)

var errHeaders = errors.New("answered with headers of more than 64 KiB")

// wire exchanges HTTP/1.1 requests without bodies over one connection, one at a time,
// on the caller's goroutine. net/http's Transport hands every exchange over between
// three goroutines, which costs a fifth of a scrape.
type wire struct {
	dial  func(context.Context) (net.Conn, error)
	conn  net.Conn // nil: none
	from  allowance
	r     *bufio.Reader
	head  []byte // the request as it is sent
	of    *http.Request
	close bool // after each answer
}

// allowance reads from the connection, up to a number of bytes while headers are read.
type allowance struct {
	conn net.Conn
	left int64 // negative: no limit
	any  bool  // anything was read in this exchange
}

func (a *allowance) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, errHeaders
	}
	if a.left > 0 && int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err := a.conn.Read(p)
	if a.left > 0 {
		a.left -= int64(n)
	}
	a.any = a.any || n > 0
	return n, err
}

// use has another request sent from now on.
func (w *wire) use(request *http.Request) error {
	var b bytes.Buffer
	if err := request.Write(&b); err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	w.head, w.of, w.close = b.Bytes(), request, request.Close
	return nil
}

// exchange sends the request and returns the answer, of which the body is not read yet.
// done must be called after the body: whole says that it was read to its end, so that
// the connection can be used again. A connection that the other side has closed since
// the last exchange is made anew.
func (w *wire) exchange(ctx context.Context) (response *http.Response, done func(whole bool), err error) {
	for {
		reused := w.conn != nil
		if !reused {
			if w.conn, err = w.dial(ctx); err != nil {
				w.conn = nil
				return nil, nil, err
			}
			w.from.conn = w.conn
			if w.r == nil {
				w.r = bufio.NewReaderSize(&w.from, wireBuffer)
			}
			w.r.Reset(&w.from)
		}
		conn := w.conn
		deadline, _ := ctx.Deadline()  // zero: none
		_ = conn.SetDeadline(deadline) // on a closed connection, writing says so
		cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		response, err = w.ask()
		if err == nil {
			return response, func(whole bool) {
				cut()
				// What is there beyond the answer would be taken for the next one.
				if !whole || response.Close || w.close || w.r.Buffered() > 0 || ctx.Err() != nil {
					w.hangUp()
				}
			}, nil
		}
		cut()
		stale := reused && !w.from.any && ctx.Err() == nil
		w.hangUp()
		if n, is := errors.AsType[net.Error](err); !stale || is && n.Timeout() {
			if ctx.Err() != nil {
				err = errors.Join(ctx.Err(), err)
			}
			return nil, nil, err
		}
	}
}

func (w *wire) ask() (*http.Response, error) {
	w.from.any = false
	if _, err := w.conn.Write(w.head); err != nil {
		return nil, err
	}
	w.from.left = maxHeaderBytes
	for range maxInterim {
		response, err := http.ReadResponse(w.r, w.of)
		if err != nil {
			return nil, err
		}
		if response.StatusCode < 100 || response.StatusCode > 199 {
			w.from.left = -1
			return response, nil
		}
	}
	return nil, errors.New("answered with interim answers only")
}

// hangUp closes the connection.
func (w *wire) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing is expected of it any more
		w.conn = nil
	}
}
