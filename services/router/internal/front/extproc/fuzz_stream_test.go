package extproc

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// counting decides, and counts what is reserved. Safe for concurrent use.
type counting struct {
	table       *roster.Roster
	open, twice atomic.Int64
	fail        atomic.Bool
}

func (d *counting) Decide(ctx context.Context, r *route.Request) *route.Decision {
	if r.Prompt != nil {
		r.Prompt.Blocks(64, 16)
		_ = r.Prompt.Text()
	}
	if err := ctx.Err(); err != nil {
		return &route.Decision{Request: r, Err: err}
	}
	if d.fail.Load() {
		return &route.Decision{Request: r, Err: route.ErrNoEndpoint}
	}
	d.open.Add(1)
	e := d.table.Snapshot().Table.Endpoints
	return &route.Decision{Request: r, Endpoint: &e[0], Fallbacks: []*roster.Endpoint{&e[1]}, Reservation: &counted{d: d}}
}
func (*counting) Failed(roster.ID, string) {}
func (*counting) Succeeded(roster.ID)      {}

type counted struct {
	d    *counting
	done atomic.Bool
}

func (*counted) PickID() string        { return "" }
func (*counted) FirstToken()           {}
func (*counted) Move(*roster.Endpoint) {}
func (c *counted) Finish(bool, route.Usage) {
	if c.done.Swap(true) {
		c.d.twice.Add(1)
		return
	}
	c.d.open.Add(-1)
}

// FuzzStreams sends messages in any order to a server over gRPC: twice, out of turn, with
// attributes that make no sense or bytes that are no message, and leaves whenever it likes
// by half-closing or cancelling. Nothing panics, and when the stream has ended no
// reservation, no stream and no goroutine is left.
func FuzzStreams(f *testing.F) {
	f.Add([]byte{0x00, 0, 0, 0x01, 100, 9, 0x81, 0, 0, 0x04, 0, 0, 0x85, 1, 1}, []byte(chat("m", "hello")), byte(4|4<<3), byte(0))
	f.Add([]byte{0x00, 0, 0, 0x81, 70, 9, 0x81, 0, 0, 0x03, 0x04, 0, 0, 0x07, 0x07}, []byte(chat("m", "hello")+"more"), byte(4|4<<3), byte(1))
	f.Add([]byte{0x10, 0, 0, 0x40, 0x91, 90, 9}, []byte(chat("m", "hello")), byte(1|1<<3), byte(2))
	f.Add([]byte{0x00, 0, 0, 0x01, 20, 9, 0x01, 20, 0}, []byte(chat("m", "hello")), byte(1|0x40), byte(0)) // its end is late
	f.Add([]byte{0x00, 0x20, 0, 0x01, 60, 255, 0x03, 0x05, 60, 255}, make([]byte, 200), byte(2|4<<3), byte(0x0c))
	f.Add([]byte{0x80, 1, 0}, []byte("x"), byte(4|4<<3), byte(0))        // the answer never comes
	f.Add([]byte{0x00, 0, 0, 0x04, 0, 0}, []byte("x"), byte(0), byte(0)) // nor its end
	f.Add([]byte{0x04, 0, 0, 0x85, 9, 9, 0x00, 0, 0, 0x01, 1, 1}, []byte("data: [DONE]\n\n"), byte(5|5<<3), byte(3))
	d := &counting{table: roster.New(roster.Config{})}
	list, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "10.0.0.1", Port: 8000}, {ID: "b", Host: "10.0.0.2", Port: 8000}})
	if err != nil {
		f.Fatal(err)
	}
	d.table.SetTable(list)
	tel := telemetry.Discard()
	cfg := DefaultConfig()
	cfg.SecureServing, cfg.MaxRequestBytes, cfg.DecisionTimeout = false, 150000, conf.Duration(2*time.Millisecond)
	s, err := New(Deps{Decider: d, Roster: d.table, Quarantine: d, Telemetry: tel, Rewrite: func(r *route.Request) (string, bool) { return "other", r.Model == "m" }}, cfg)
	if err != nil {
		f.Fatal(err)
	}
	opts, err := s.Options()
	if err != nil {
		f.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	s.Register(g)
	l := bufconn.Listen(1 << 20)
	go func() { _ = g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///fuzz", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close(); g.Stop() })
	conn.Connect()
	kittest.Eventually(f, "the connection", func() bool { return conn.GetState().String() == "READY" })
	rest := 0
	f.Fuzz(func(t *testing.T, ops, text []byte, modes, how byte) {
		if len(ops) > 200 {
			return // no other in kind
		}
		d.fail.Store(how&1 != 0)
		if rest == 0 {
			rest = runtime.NumGoroutine() // in the process that plays, which the fuzzer has several of
		}
		tape := &tape{counts: map[string]int{}, t: t, ops: ops, text: text, mode: [2]wire.Mode{wire.Mode(modes & 7), wire.Mode(modes >> 3 & 7)}}
		perform(t, conn, tape, modes&0x40 != 0, how)
		settle := func(what string, f func() bool) {
			// The fuzzer gives an input 10 s, which is less than kittest does.
			for deadline := time.Now().Add(8 * time.Second); !f(); time.Sleep(100 * time.Microsecond) {
				if time.Now().After(deadline) {
					t.Fatal("it took too long for " + what)
				}
			}
		}
		settle("the stream to end", func() bool { return tel.Value("pointsman_router_extproc_requests_in_flight") == 0 })
		settle("the reservations to end", func() bool { return d.open.Load() == 0 })
		settle("the goroutines to end", func() bool { return runtime.NumGoroutine() <= rest+2 }) // the fuzzer has its own
		if n := d.twice.Load(); n > 0 {
			t.Fatalf("%d reservations were ended twice", n)
		}
	})
}

// perform plays the tape on a stream. The bits of how say how it leaves: 2 cancels, 4 does
// not read what is answered before it leaves.
func perform(t *testing.T, conn *grpc.ClientConn, play *tape, noWait bool, how byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, extproc.ExternalProcessor_Process_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for n := 0; how&4 == 0; {
			if stream.RecvMsg(&n) != nil {
				return
			}
		}
	}()
	for len(play.ops) > 0 {
		op := play.ops[0]
		m := play.request()
		if m.GetProtocolConfig() != nil {
			m.ProtocolConfig.SendBodyWithoutWaitingForHeaderResponse = noWait
		}
		if op&0x10 != 0 {
			v, _ := structpb.NewStruct(map[string]any{"response.code_details": string(play.some()), "request.path": 1.5, "": []any{nil, true}})
			m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": v, "": nil}
		}
		out, err := proto.Marshal(m)
		if err != nil {
			break // text that is not UTF-8, where it would have to be
		}
		if op&0x40 != 0 { // no message, or half of one
			out = append(out[:len(out)/2:len(out)/2], play.some()...)
		}
		msg := raw(out)
		if stream.SendMsg(&msg) != nil {
			break // the server has ended it
		}
	}
	if how&2 != 0 {
		cancel()
	}
	_ = stream.CloseSend()
	if how&4 == 0 {
		<-read
	}
}
