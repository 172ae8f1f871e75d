package scrape

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answers serves raw answers to requests, one connection after the other: each entry is
// what one connection answers with, request by request; then it is closed.
func answers(t *testing.T, connections ...[]string) (dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for _, texts := range connections {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(conn)
			for _, text := range texts {
				if _, err := http.ReadRequest(r); err != nil {
					break
				}
				_, _ = io.WriteString(conn, text)
			}
			_ = conn.Close()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestWire(t *testing.T) {
	const ok, page = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "hi"
	for name, c := range map[string]struct {
		connections [][]string
		want        []string // of each exchange: the body, or a part of the error
	}{
		"one connection":               {[][]string{{ok + page, ok + page}}, []string{page, page}},
		"chunks":                       {[][]string{{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", ok + page}}, []string{page, page}},
		"until the end":                {[][]string{{"HTTP/1.0 200 OK\r\n\r\nhi"}, {ok + page}}, []string{page, page}},
		"closed after the answer":      {[][]string{{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"}, {ok + page}}, []string{page, page}},
		"closed while nobody asked":    {[][]string{{ok + page}, {ok + page}}, []string{page, page}},
		"more than was asked for":      {[][]string{{ok + page + ok + "no"}, {ok + page}}, []string{page, page}},
		"interim answers":              {[][]string{{"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + page}}, []string{page}},
		"nothing but interim answers":  {[][]string{{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9)}}, []string{"interim answers only"}},
		"headers without end":          {[][]string{{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes)}}, []string{"more than 64 KiB"}},
		"cut in the headers":           {[][]string{{"HTTP/1.1 200 OK\r\nConte"}}, []string{"malformed"}},
		"cut in the page":              {[][]string{{ok + "h"}, {ok + page}}, []string{"unexpected EOF", page}},
		"no HTTP":                      {[][]string{{"SSH-2.0-x\r\n"}}, []string{"malformed HTTP"}},
		"no answer on a new one":       {[][]string{{}}, []string{"E"}}, // EOF, or a reset
		"a cut answer is not repeated": {[][]string{{ok + page, "HTT"}, {ok + page}}, []string{page, "malformed", page}},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodGet, "http://x/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			w := wire{dial: answers(t, c.connections...)}
			if err := w.use(request); err != nil {
				t.Fatal(err)
			}
			defer w.hangUp()
			for i, want := range c.want {
				body, err := once(t, &w)
				if want == page && (err != nil || body != page) || want != page && (err == nil || want != "E" && !strings.Contains(err.Error(), want)) {
					t.Errorf("exchange %d: %q, %v; want %q", i, body, err, want)
				}
				time.Sleep(20 * time.Millisecond) // whoever closes has closed
			}
		})
	}
}

func once(t *testing.T, w *wire) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	response, done, err := w.exchange(ctx)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	done(err == nil)
	return string(body), err
}

func TestWireIsCutOff(t *testing.T) {
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"timeout": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 30*time.Millisecond)
		},
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(30*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodGet, "http://x/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			server, client := net.Pipe()
			defer server.Close()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			w := wire{dial: func(context.Context) (net.Conn, error) { return client, nil }}
			if err := w.use(request); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := end()
			defer cancel()
			if _, _, err := w.exchange(ctx); err == nil || w.conn != nil {
				t.Errorf("error %v, the connection is kept: %v", err, w.conn != nil)
			} else if n, is := errors.AsType[net.Error](err); !is || !n.Timeout() {
				t.Errorf("%v", err)
			}
		})
	}
}
