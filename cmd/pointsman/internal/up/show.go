package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// readyPatience is how long the routers may take to know every endpoint and reach
// every scorer. It is passed only when something is broken.
const readyPatience = time.Minute

// ownPatience is how long scorers of the user's are waited for. They may be started
// later as well.
const ownPatience = 5 * time.Second

// waitReady waits until every router knows all endpoints and reaches all scorers, and
// then says where everything is.
func (m *machine) waitReady(ctx context.Context, ready func()) error {
	began := time.Now()
	deadline := began.Add(readyPatience)
	all := func() bool { return time.Since(began) < ownPatience }
	for i := range m.cfg.Routers {
		conn, client, err := m.dial(i)
		if err != nil {
			return err
		}
		for missing := m.missing(ctx, client, all()); missing != ""; missing = m.missing(ctx, client, all()) {
			if time.Now().After(deadline) {
				_ = conn.Close()
				return fmt.Errorf("%s is not ready after %s: %s", routerName(i), readyPatience, missing)
			}
			select {
			case <-ctx.Done():
				_ = conn.Close()
				return nil
			case <-time.After(20 * time.Millisecond):
			}
		}
		_ = conn.Close()
	}
	m.printAddresses()
	ready()
	<-ctx.Done()
	return nil
}

func (m *machine) dial(i int) (*grpc.ClientConn, routerv1.RouterServiceClient, error) {
	conn, err := rpc.Dial(m.book.get(routerName(i)+"/grpc"), rpc.DefaultClientConfig())
	if err != nil {
		return nil, nil, err
	}
	return conn, routerv1.NewRouterServiceClient(conn), nil
}

// missing says what the router still lacks; empty if nothing. Scorers that are not
// built in count if all shall be there.
func (m *machine) missing(ctx context.Context, c routerv1.RouterServiceClient, all bool) string {
	e, err := c.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
	if err != nil {
		return err.Error()
	}
	known := 0
	for _, s := range e.GetEndpoints() {
		if s.GetLoadAge() != nil {
			known++
		}
	}
	if known != m.cfg.Servers {
		return fmt.Sprintf("it knows the load of %d of %d endpoints", known, m.cfg.Servers)
	}
	s, err := c.ListScorers(ctx, &routerv1.ListScorersRequest{})
	if err != nil {
		return err.Error()
	}
	for _, sc := range s.GetScorers() {
		up := false
		for _, r := range sc.GetReplicas() {
			up = up || r.GetReady()
		}
		if !up && (all || slices.Contains(builtin(), sc.GetName())) {
			return fmt.Sprintf("scorer %s is not reached: %s", sc.GetName(), sc.GetLastError())
		}
	}
	return ""
}

func (m *machine) printAddresses() {
	w := m.stdout
	fmt.Fprintf(w, "Pointsman is up: %d simulated model servers, %d router(s), 3 scorers, a collector, NATS.\n\n", m.cfg.Servers, m.cfg.Routers)
	for i := range m.cfg.Routers {
		fmt.Fprintf(w, "  %-9s OpenAI API http://%s/v1   gRPC %s   metrics http://%s/metrics\n", routerName(i),
			m.book.get(routerName(i)+"/http"), m.book.get(routerName(i)+"/grpc"), m.book.get(routerName(i)+"/admin"))
		if m.extProc(i) != "" {
			fmt.Fprintf(w, "  %-9s ext_proc %s, over TLS\n", "", m.book.get(routerName(i)+"/extProc"))
		}
	}
	for i := range m.cfg.Servers {
		fmt.Fprintf(w, "  %-9s http://%s%s\n", serverName(i), m.book.get(serverName(i)), suffix(m.cfg.role(i)))
	}
	fmt.Fprintf(w, "  %-9s %s\n\nTry:\n  %s\n\nCtrl-C ends it. ", "nats", m.book.get("nats"), m.cfg.example("http://"+m.book.get(routerName(0)+"/http")))
	if m.cfg.Quiet {
		fmt.Fprintln(w)
		return
	}
	fmt.Fprintln(w, "Decisions, as they happen:")
}

// mostPast is the most past decisions that a router can be asked for.
const mostPast = 1000

// decisions prints what the routers decide.
func (m *machine) decisions(ctx context.Context, ready func()) error {
	ready()
	if m.cfg.Quiet {
		<-ctx.Done()
		return nil
	}
	lines := make(chan string)
	for i := range m.cfg.Routers {
		conn, client, err := m.dial(i)
		if err != nil {
			return err
		}
		defer conn.Close()
		// Those from before the watch as well: who reads the address may be faster than the watch. All the past is this run's.
		stream, err := client.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{PastCount: mostPast})
		if err != nil {
			return fmt.Errorf("watch decisions of %s: %w", routerName(i), err)
		}
		go func() {
			for {
				d, err := stream.Recv()
				if err != nil {
					return // ctx ended, or the router did, which ends the group
				}
				select {
				case lines <- text.Decision(text.Clean(d).GetDecision()):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			if _, err := io.WriteString(m.stdout, l+"\n"); err != nil {
				return errors.New("standard output is gone")
			}
		}
	}
}
