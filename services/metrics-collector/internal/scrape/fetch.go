package scrape

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const (
	userAgent = "pointsman-metrics-collector"
	// drainBytes of an answer that is not wanted are read, so that the connection can
	// be used again.
	drainBytes = 64 << 10
)

// fetcher GETs one source of one endpoint. It is used by one goroutine.
type fetcher struct {
	wire     wire
	request  *http.Request
	token    tokenFile
	bearer   string // in the request
	maxBytes int64
}

func newFetcher(url, accept string, s *fleet.Source, connectTimeout time.Duration, maxBytes int64) (*fetcher, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("address of the endpoint: %w", err)
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", userAgent)
	dialer := &net.Dialer{Timeout: connectTimeout}
	f := &fetcher{request: request, maxBytes: maxBytes}
	address := net.JoinHostPort(request.URL.Hostname(), cmp.Or(request.URL.Port(), defaultPort(s.Scheme)))
	f.wire.dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", address) }
	if err := f.wire.use(request); err != nil {
		return nil, err
	}
	if s.Token != "" {
		if err := f.setBearer(string(s.Token)); err != nil {
			return nil, err
		}
	} else {
		f.token.path = s.TokenFile
	}
	if s.Scheme == "https" {
		m := &material{spec: s.TLS}
		f.wire.dial = func(ctx context.Context) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return dialTLS(ctx, dialer, m, "tcp", address)
		}
	}
	return f, nil
}

func dialTLS(ctx context.Context, dialer *net.Dialer, m *material, network, address string) (net.Conn, error) {
	c, err := m.get(time.Now())
	if err != nil {
		return nil, &failure{credentials, err}
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if c.ServerName == "" && !c.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			conn.Close()
			return nil, err
		}
		c = c.Clone()
		c.ServerName = host
	}
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, classifyHandshake(err)
	}
	return secure, nil
}

func (f *fetcher) setBearer(token string) error {
	if token == f.bearer {
		return nil
	}
	f.bearer = token
	f.request.Header.Set("Authorization", "Bearer "+token)
	return f.wire.use(f.request)
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// get appends the answer's body to buf. reached says whether the endpoint was given
// work to do. The error is a *failure.
func (f *fetcher) get(ctx context.Context, buf []byte) (body []byte, reached bool, err error) {
	if f.token.path != "" {
		token, err := f.token.get(time.Now())
		if err != nil {
			return buf, false, &failure{credentials, err}
		}
		if err := f.setBearer(token); err != nil {
			return buf, false, &failure{credentials, err}
		}
	}
	response, done, err := f.wire.exchange(ctx) //nolint:bodyclose // done does that, or hangs up
	if err != nil {
		fail := classify(err)
		return buf, fail.reason == timeout || fail.reason == cut, fail
	}
	if fault := f.refuse(response); fault != nil {
		_, err := io.CopyN(io.Discard, response.Body, drainBytes)
		done(errors.Is(err, io.EOF)) // what is left is cut off
		return buf, true, fault
	}
	body, err = f.read(response.Body, buf)
	done(err == nil)
	if err != nil {
		return body, true, classify(err)
	}
	return body, true, nil
}

// refuse returns why an answer is not read, nil if it is.
func (f *fetcher) refuse(response *http.Response) *failure {
	if response.StatusCode != http.StatusOK {
		return &failure{status, fmt.Errorf("answered with status %d", response.StatusCode)}
	}
	if e := response.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return &failure{encoding, fmt.Errorf("answered with content encoding %.20q, which was not asked for", e)}
	}
	if response.ContentLength > f.maxBytes {
		return f.large()
	}
	return nil
}

func (f *fetcher) large() *failure {
	return &failure{tooLarge, fmt.Errorf("answered with more than %d bytes (maxPageBytes)", f.maxBytes)}
}

// read appends what r has to buf.
func (f *fetcher) read(r io.Reader, buf []byte) ([]byte, error) {
	start := len(buf)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)-start) > f.maxBytes {
			return buf, f.large()
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

func (f *fetcher) close() { f.wire.hangUp() }
