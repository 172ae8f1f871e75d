package run_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// A connection over which nothing has come does not hold up the end, and requests that are
// under way are answered.
func TestShutdownWaitsForRequestsAlone(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-goOn
		_, _ = io.WriteString(w, "answer")
	})}
	shutdown := run.Shutdown(s)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	unused, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answered <- string(b)
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- shutdown(context.Background()) }()
	// It is closed although the server waits for the request, and that for us; whether that is
	// before the 5 s of net/http, shutdown_internal_test.go says.
	if _, err := unused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the unused connection: %v, want that it was closed", err)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended with a request under way: %v", err)
	default:
	}
	close(goOn)
	if got := <-answered; got != "answer" {
		t.Errorf("the request under way: %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
