package system

import (
	"context"
	"crypto/tls"
	"io"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pointsman/pointsman/test/cluster"
)

// The router takes the place of an endpoint picker: a proxy's stream, over TLS with a
// certificate that was made at the start, gets a destination in header and metadata,
// the body back as it was, and the pick ends with the answer.
func TestAProxyIsToldWhereToGo(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 3, Server: fast})
	conn, err := grpc.NewClient(c.Routers[0].Addr("extProc"), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(m *extprocv3.ProcessingRequest) {
		t.Helper()
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() *extprocv3.ProcessingResponse {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	headers := func(end bool, fields ...string) *extprocv3.HttpHeaders {
		h := &extprocv3.HttpHeaders{EndOfStream: end, Headers: &corev3.HeaderMap{}}
		for i := 0; i < len(fields); i += 2 {
			h.Headers.Headers = append(h.Headers.Headers, &corev3.HeaderValue{Key: fields[i], RawValue: []byte(fields[i+1])})
		}
		return h
	}
	body := `{"model":"sim-model","messages":[{"role":"user","content":"Which way?"}]}`
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(false, ":method", "POST", ":path", "/v1/chat/completions", "content-type", "application/json", "x-gateway-destination-endpoint", "169.254.169.254:80")}})
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: true}}})
	head := receive()
	to := ""
	for _, h := range head.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		if h.GetHeader().GetKey() == "x-gateway-destination-endpoint" {
			to = string(h.GetHeader().GetRawValue())
		}
	}
	var known []string
	for _, s := range c.Servers {
		known = append(known, s.Address())
	}
	if !slices.Contains(known, to) {
		t.Fatalf("destination %q is none of %v", to, known)
	}
	if meta := head.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()["x-gateway-destination-endpoint"].GetStringValue(); meta != to {
		t.Errorf("metadata says %q, the header %q", meta, to)
	}
	back := receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if string(back.GetBody()) != body || !back.GetEndOfStream() {
		t.Errorf("the body came back as %q, end %t", back.GetBody(), back.GetEndOfStream())
	}
	if n := c.Metric(t, 0, "pointsman_router_reservations", ""); n != 1 {
		t.Errorf("%v picks are open while the request is under way, want 1", n)
	}
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(true, ":status", "200")}})
	receive()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF { //nolint:errorlint // grpc returns the value itself
		t.Errorf("the stream ended with %v", err)
	}
	c.AwaitIdle(t)
}
