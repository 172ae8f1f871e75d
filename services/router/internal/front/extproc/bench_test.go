package extproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// serverEnv makes the test binary a server to be measured: "floor" or "ours".
const serverEnv = "POINTSMAN_EXTPROC_BENCH"

// floor is the least that a server written with the generated code can do: it answers
// every message at once with what it holds.
type floor struct {
	extproc.UnimplementedExternalProcessorServer
}

func (floor) Process(s extproc.ExternalProcessor_ProcessServer) error {
	streamed := func(b *extproc.HttpBody) *extproc.BodyResponse {
		return &extproc.BodyResponse{Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{
			StreamedResponse: &extproc.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()},
		}}}}
	}
	for {
		m, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has finished
		}
		out := new(extproc.ProcessingResponse)
		switch r := m.GetRequest().(type) {
		case *extproc.ProcessingRequest_RequestHeaders:
			out.Response = &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{}}
		case *extproc.ProcessingRequest_RequestBody:
			out.Response = &extproc.ProcessingResponse_RequestBody{RequestBody: streamed(r.RequestBody)}
		case *extproc.ProcessingRequest_ResponseHeaders:
			out.Response = &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}}
		case *extproc.ProcessingRequest_ResponseBody:
			out.Response = &extproc.ProcessingResponse_ResponseBody{ResponseBody: streamed(r.ResponseBody)}
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

// instant decides at once and counts nothing.
type instant struct{ endpoint roster.Endpoint }

func (d *instant) Decide(_ context.Context, r *route.Request) *route.Decision {
	return &route.Decision{Request: r, Endpoint: &d.endpoint, Reservation: d}
}
func (*instant) PickID() string             { return "" }
func (*instant) FirstToken()                {}
func (*instant) Move(*roster.Endpoint)      {}
func (*instant) Finish(bool, route.Usage)   {}
func (*instant) Failed(roster.ID, string)   {}
func (*instant) Succeeded(roster.ID)        {}
func (*instant) Snapshot() *roster.Snapshot { return roster.New(roster.Config{}).Snapshot() }
func instantServer() (*Server, error) {
	d := &instant{roster.Endpoint{ID: "e", Address: "10.0.0.1:8000"}}
	cfg := DefaultConfig()
	cfg.SecureServing = false
	return New(Deps{Decider: d, Roster: d, Quarantine: d, Telemetry: telemetry.Discard()}, cfg)
}

// TestServer is the server that benchmarks measure, in a process of its own. It tells
// its address, and its CPU time whenever it is asked.
func TestServer(t *testing.T) {
	which := os.Getenv(serverEnv)
	if which == "" {
		t.Skip("is run by the benchmarks")
	}
	var g *grpc.Server
	buffers := []grpc.ServerOption{grpc.ReadBufferSize(64 << 10), grpc.WriteBufferSize(64 << 10)} // as rpc has them
	if which == "floor" {
		g = grpc.NewServer(buffers...)
		extproc.RegisterExternalProcessorServer(g, floor{})
	} else {
		s, err := instantServer()
		if err != nil {
			t.Fatal(err)
		}
		opts, err := s.Options()
		if err != nil {
			t.Fatal(err)
		}
		g = grpc.NewServer(append(buffers, opts...)...)
		s.Register(g)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(l)
	defer g.Stop()
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
}

// raw are messages that are encoded already.
type raw []byte

type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Name() string { return grpcproto.Name }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*raw))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// script is a request as a proxy sends it.
func script(b testing.TB, size int) (request, response []raw) {
	encode := func(m *extproc.ProcessingRequest) raw {
		out, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	text := []byte(chat("meta-llama/Llama-3.1-8B-Instruct", strings.Repeat("All work and no play makes Jack a dull boy. ", size/44)))
	headers := headerMap([]string{
		":authority", "llm.example.com", ":path", "/v1/chat/completions", ":method", "POST", ":scheme", "https", "content-type", "application/json",
		"content-length", strconv.Itoa(len(text)), "authorization", "Bearer 0123456789abcdef0123456789abcdef", "user-agent", "OpenAI/Python 1.99.0",
		"accept", "application/json", "accept-encoding", "gzip, deflate", "x-stainless-lang", "python", "x-stainless-package-version", "1.99.0",
		"x-stainless-os", "Linux", "x-stainless-arch", "x64", "x-stainless-runtime", "CPython", "x-stainless-runtime-version", "3.12.0",
		"x-forwarded-for", "10.1.2.3", "x-forwarded-proto", "https", "x-request-id", "6f5902ac-237e-4a0e-9d0f-0c1d2e3f4a5b",
	})
	request = append(request, encode(&extproc.ProcessingRequest{
		Request:        &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headers}},
		ProtocolConfig: &extproc.ProtocolConfiguration{RequestBodyMode: 4, ResponseBodyMode: 4},
	}))
	for len(text) > 0 {
		n := min(len(text), 16<<10)
		request = append(request, encode(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
			RequestBody: &extproc.HttpBody{Body: text[:n], EndOfStream: n == len(text)},
		}}))
		text = text[n:]
	}
	answer := headerMap([]string{":status", "200", "content-type", "application/json", "content-length", "300", "date", "Mon, 30 Nov 2026 12:00:00 GMT", "server", "uvicorn"})
	response = append(response, encode(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: answer}}}),
		encode(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{
			Body: []byte(`{"id":"x","choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("y", 200) + `"}}],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}`), EndOfStream: true,
		}}}))
	return request, response
}

// BenchmarkProcess measures the CPU time per request of a server alone, in a process of
// its own, with 64 streams in a closed loop. The floor is a server that only echoes.
func BenchmarkProcess(b *testing.B) {
	for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
		for _, which := range []string{"floor", "ours"} {
			b.Run(fmt.Sprintf("%s/%dKB", which, size>>10), func(b *testing.B) { measure(b, which, size) })
		}
	}
}

func measure(b *testing.B, which string, size int) {
	self := exec.Command(os.Args[0], "-test.run=^TestServer$")
	self.Env = append(os.Environ(), serverEnv+"="+which)
	in, err := self.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := self.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := self.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	line := func() string {
		if !lines.Scan() {
			b.Fatal("the server has gone")
		}
		return lines.Text()
	}
	cpu := func() float64 {
		fmt.Fprintln(in)
		ns, err := strconv.ParseFloat(line(), 64)
		if err != nil {
			b.Fatal(err)
		}
		return ns
	}
	conn, err := grpc.NewClient(line(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		b.Fatal(err)
	}
	request, response := script(b, size)
	const streams = 64
	requests := func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var done sync.WaitGroup
		for range streams {
			done.Go(func() {
				for left.Add(-1) >= 0 {
					if err := exchangeOnce(conn, request, response, which == "floor"); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		done.Wait()
	}
	requests(2000) // warm
	before := cpu()
	b.ResetTimer()
	requests(b.N)
	b.StopTimer()
	b.ReportMetric((cpu()-before)/float64(b.N)/1000, "server-µs/op")
	conn.Close()
	in.Close()
	_ = self.Wait()
}

// exchangeOnce plays a proxy: it waits for the whole request to be answered, and then
// for the whole answer.
func exchangeOnce(conn *grpc.ClientConn, request, response []raw, each bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, extproc.ExternalProcessor_Process_FullMethodName)
	if err != nil {
		return err
	}
	size := 0
	for _, m := range request {
		size += len(m)
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
	// The headers are answered, and then the body, however it is cut.
	body := size - len(request[0])
	for got, n := 0, 0; n == 0 || got < body-40*len(request); n++ {
		var k int
		if err := s.RecvMsg(&k); err != nil {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if n > 0 {
			got += k
		}
	}
	for _, m := range response {
		if err := s.SendMsg(&m); err != nil {
			return err
		}
		var k int
		if err := s.RecvMsg(&k); err != nil {
			return err
		}
	}
	return nil
}
