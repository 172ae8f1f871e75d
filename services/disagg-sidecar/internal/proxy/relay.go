package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/pointsman/pointsman/disagg"
)

// relay passes an answer on as it comes.
func (x *exchange) relay(resp *http.Response) *refusal {
	h := x.w.Header()
	for name, values := range onwards(resp.Header) {
		if name != headerRequestID {
			h[name] = values
		}
	}
	if _, ok := resp.Header["Content-Type"]; !ok {
		h["Content-Type"] = nil // else net/http guesses one from the body
	}
	chunk := make([]byte, 32<<10)
	out := http.NewResponseController(x.w)
	for begun := false; ; {
		n, err := resp.Body.Read(chunk)
		if !begun && n == 0 && err != nil && !errors.Is(err, io.EOF) {
			for name := range h {
				delete(h, name)
			}
			return refuse(err) // nothing was answered yet
		}
		if !begun {
			begun = true
			x.w.WriteHeader(resp.StatusCode)
		}
		if n > 0 {
			if _, err := x.w.Write(chunk[:n]); err != nil {
				return &refusal{reason: Cancelled}
			}
			if err == nil {
				_ = out.Flush() // an error is the next write's too
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return x.broken(resp, err)
		}
	}
}

// broken ends an answer that broke off, so that the client sees it.
func (x *exchange) broken(resp *http.Response, err error) *refusal {
	f := refuse(err)
	f.message = "the model server broke off its answer"
	switch {
	case errIs[*disagg.PrefillError](err):
		f.message = "the model server that was to prefill the prompt did not"
	case errIs[*disagg.RoundError](err):
		f.message = "the model server did not go on with its answer: " + err.Error()
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		said := f.body()
		if round := roundOf(err); round != nil {
			said = round
		}
		_, _ = x.w.Write(append(append([]byte("\n\ndata: "), said...), "\n\n"...))
		_ = http.NewResponseController(x.w).Flush() // the client may have gone
	}
	return f
}

// pass sends the request to the model server as it comes.
func (x *exchange) pass() *refusal {
	x.rank.through.ServeHTTP(x.w, x.r)
	if reason := x.w.Header().Get("X-Pointsman-Reason"); reason != "" && x.w.own {
		x.why = Reason(reason)
	}
	return nil
}

// reverse makes the way through for what is not prefilled elsewhere.
func (r *rank) reverse() *httputil.ReverseProxy {
	to := &url.URL{Scheme: r.endpoint.Scheme, Host: r.endpoint.Address}
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(to)
			pr.Out.Host = to.Host
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			for _, name := range [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
				if v, ok := pr.In.Header[name]; ok { // what the gateway has said stays
					pr.Out.Header[name] = v
				}
			}
		},
		Transport:     r.proxy.decode,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(r.proxy.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
			if q.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			if rec, ok := w.(*recorder); ok {
				rec.own = true
			}
			refuse(err).write(w)
		},
	}
}
