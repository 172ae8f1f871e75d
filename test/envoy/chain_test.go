package envoy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/test/cluster"
)

// passer is another ext_proc filter's service: it reads bodies and passes them on, and says in
// a header that it was there.
type passer struct {
	extprocv3.UnimplementedExternalProcessorServer
}

// Process passes everything on, part by part, as full duplex demands.
func (passer) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	streamed := func(b *extprocv3.HttpBody) *extprocv3.BodyResponse {
		return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()},
		}}}}
	}
	mark := &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
		{Header: &corev3.HeaderValue{Key: "x-test-passed", RawValue: []byte("yes")}},
	}}}}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var answer extprocv3.ProcessingResponse
		switch q := m.GetRequest().(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			answer.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: mark}
		case *extprocv3.ProcessingRequest_RequestBody:
			answer.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: streamed(q.RequestBody)}
		case *extprocv3.ProcessingRequest_RequestTrailers:
			answer.Response = &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			answer.Response = &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: mark}
		case *extprocv3.ProcessingRequest_ResponseBody:
			answer.Response = &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: streamed(q.ResponseBody)}
		case *extprocv3.ProcessingRequest_ResponseTrailers:
			answer.Response = &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}
		}
		if err := s.Send(&answer); err != nil {
			return err
		}
	}
}

// TestChain has the picker share a filter chain with another full duplex filter, before
// or after it (B047): bodies come through whole both ways.
func TestChain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(g, passer{})
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)

	names := []string{"before", "after"}
	r := newRig(t, options{
		file: overrideHost, cluster: cluster.Options{Servers: 2},
		with: func(b *bootstrap) {
			other := at[object](t, at[[]any](t, decode(t, b.text), "static_resources", "clusters")[1])
			other["name"] = "passer"
			delete(other, "transport_socket")
			delete(other, "health_checks")
			resources := at[object](t, b.doc, "static_resources")
			resources["clusters"] = append(at[[]any](t, resources, "clusters"), other)
			b.pool(t, "passer", l.Addr().String())
		},
		listeners: func(b *bootstrap) {
			for i, name := range names {
				b.listen(t, name, func(l *listener) {
					passing := at[object](t, decode(t, b.text), "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config", "http_filters", 0)
					config := at[object](t, passing, "typed_config")
					config["grpc_service"] = object{"envoy_grpc": object{"cluster_name": "passer"}}
					config["stat_prefix"] = "passer"
					passing["name"] = "passer"
					l.filters = append(l.filters[:i:i], append([]any{passing}, l.filters[i:]...)...)
				})
			}
		},
	})
	for _, name := range names {
		for _, size := range []int{0, 6_200, 62_001, 300_000, 1_000_000, 5_000_000} {
			for _, h2 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, h2 %t", name, size, h2), func(t *testing.T) {
					q := request{body: chat(size), h2: h2, chunked: h2}
					if size == 0 {
						q.path, q.body = "/anything", []byte{}
					}
					got := r.echo(t, name, q)
					d := r.decided(t, got)
					if size > 0 && d.GetPromptTokenCount() == 0 {
						t.Error("the picker has not seen the prompt")
					}
					if got.Headers.Get("X-Test-Passed") != "yes" {
						t.Error("the other filter was not asked")
					}
					a := r.send(t, name, request{body: chat(300), h2: h2, headers: map[string]string{headerDo: "raw", "X-Test-Size": fmt.Sprint(size)}})
					if digest(a.body) != digest(filler(size)) {
						t.Errorf("%d bytes came back, of %d", len(a.body), size)
					}
				})
			}
		}
		r.idle(t)
		r.content(t, name)
	}
}
