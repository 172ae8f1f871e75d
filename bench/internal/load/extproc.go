package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

const (
	destinationHeader = "x-gateway-destination-endpoint"
	processMethod     = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
	answerBody        = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":13}}`
	requestIDBytes    = 36
)

// Picker is an endpoint picker, asked as a proxy asks it.
type Picker struct {
	conns     []*grpc.ClientConn
	turn      atomic.Uint64
	requests  []script
	answer    [2]frame // response headers and body
	endpoints map[string]bool
}

// PickerConfig says who is asked, and what.
type PickerConfig struct {
	// Address is "host:port"; with a prefix "tls://" it is spoken to over TLS, whatever
	// the certificate.
	Address string
	// Connections that the streams share. Default 2: a proxy with two workers.
	Connections int
	// Bodies of the requests, sent in turn. REQUIRED.
	Bodies [][]byte
	// ChunkBytes is the size of the parts that bodies are sent in. Default 16 KB.
	ChunkBytes int
	// Endpoints are the destinations that are right answers; nil if none is expected.
	Endpoints []string
}

// script is one request as it goes over the wire: headers, then the body in parts.
type script struct {
	body    []byte
	headers frame // holds requestIDBytes of a placeholder
	id      int   // where
	parts   []frame
}

// frame is an encoded message.
type frame []byte

// NewPicker returns an asker that has not connected yet. Close it.
func NewPicker(cfg PickerConfig) (*Picker, error) {
	if len(cfg.Bodies) == 0 {
		return nil, errors.New("load: no bodies")
	}
	if cfg.ChunkBytes == 0 {
		cfg.ChunkBytes = 16 << 10
	}
	p := &Picker{}
	if cfg.Endpoints != nil {
		p.endpoints = make(map[string]bool, len(cfg.Endpoints))
		for _, e := range cfg.Endpoints {
			p.endpoints[e] = true
		}
	}
	for _, b := range cfg.Bodies {
		s, err := newScript(b, cfg.ChunkBytes)
		if err != nil {
			return nil, err
		}
		p.requests = append(p.requests, s)
	}
	var err error
	if p.answer, err = answerFrames(); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	address, secure := strings.CutPrefix(cfg.Address, "tls://")
	if secure {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // pickers make their own certificate; proxies do not check it either
	}
	for range max(1, cfg.Connections) {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
			// Proxies have windows that are larger than any body here.
			grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(64<<20),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(64<<20)))
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		p.conns = append(p.conns, conn)
	}
	return p, nil
}

// Close closes the connections.
func (p *Picker) Close() error {
	var errs []error
	for _, c := range p.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func newScript(body []byte, chunk int) (script, error) {
	placeholder := strings.Repeat("?", requestIDBytes)
	mode := filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	head, err := proto.Marshal(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(
			":method", "POST", ":path", "/v1/chat/completions", ":authority", "bench", ":scheme", "http", "content-type", "application/json",
			"content-length", fmt.Sprint(len(body)), "user-agent", "bench", "accept", "*/*", "x-forwarded-proto", "http", "x-request-id", placeholder)},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: mode, ResponseBodyMode: mode},
	})
	if err != nil {
		return script{}, fmt.Errorf("encode request headers: %w", err)
	}
	s := script{body: body, headers: head, id: bytes.Index(head, []byte(placeholder))}
	for at := 0; at < len(body); at += chunk {
		end := min(at+chunk, len(body))
		part, err := proto.Marshal(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: body[at:end], EndOfStream: end == len(body)},
		}})
		if err != nil {
			return script{}, fmt.Errorf("encode a part of a body: %w", err)
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}

func answerFrames() (frames [2]frame, err error) {
	for i, m := range []*extprocv3.ProcessingRequest{
		{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(":status", "200", "content-type", "application/json", "content-length", fmt.Sprint(len(answerBody)))}},
		{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte(answerBody), EndOfStream: true}}},
	} {
		if frames[i], err = proto.Marshal(m); err != nil {
			return frames, fmt.Errorf("encode an answer: %w", err)
		}
	}
	return frames, nil
}

func headers(fields ...string) *extprocv3.HttpHeaders {
	h := &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{}}
	for i := 0; i < len(fields); i += 2 {
		h.Headers.Headers = append(h.Headers.Headers, &corev3.HeaderValue{Key: fields[i], RawValue: []byte(fields[i+1])})
	}
	return h
}

// Exchange is the request numbered n: it is timed until the whole request was let
// through, and its answer and the end of the stream follow.
func (p *Picker) Exchange(ctx context.Context, n int) (after func() error, err error) {
	s := &p.requests[n%len(p.requests)]
	conn := p.conns[p.turn.Add(1)%uint64(len(p.conns))]
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "Process", ServerStreams: true, ClientStreams: true}, processMethod)
	if err != nil {
		return nil, err
	}
	head := frame(bytes.Clone(s.headers))
	copy(head[s.id:s.id+requestIDBytes], fmt.Sprintf("%036x", n))
	for _, f := range append([]frame{head}, s.parts...) {
		if err := stream.SendMsg(f); err != nil {
			return nil, p.why(stream, err)
		}
	}
	if err := p.readRequest(stream, s.body); err != nil {
		return nil, err
	}
	return func() error { return p.finish(stream) }, nil
}

// why is what the server said, if sending failed because the stream had ended.
func (p *Picker) why(stream grpc.ClientStream, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	var m extprocv3.ProcessingResponse
	for {
		if err := stream.RecvMsg(&m); err != nil {
			return fmt.Errorf("the stream ended early: %w", err)
		}
	}
}

// readRequest checks what is said of the request until its end.
func (p *Picker) readRequest(stream grpc.ClientStream, body []byte) error {
	var m extprocv3.ProcessingResponse
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	if err := p.checkHeaders(&m); err != nil {
		return err
	}
	for at := 0; ; {
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		part := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if part == nil {
			return fmt.Errorf("wanted a part of the body, not %T", m.GetResponse())
		}
		if b := part.GetBody(); at+len(b) > len(body) || !bytes.Equal(b, body[at:at+len(b)]) {
			return errors.New("the body did not come back as it was")
		}
		at += len(part.GetBody())
		if part.GetEndOfStream() != (at == len(body)) {
			return fmt.Errorf("end of stream is %t at byte %d of %d", part.GetEndOfStream(), at, len(body))
		}
		if at == len(body) {
			return nil
		}
	}
}

func (p *Picker) checkHeaders(m *extprocv3.ProcessingResponse) error {
	h := m.GetRequestHeaders()
	if h == nil {
		return fmt.Errorf("wanted request headers, not %T: %d", m.GetResponse(), m.GetImmediateResponse().GetStatus().GetCode())
	}
	if p.endpoints == nil {
		return nil
	}
	for _, f := range h.GetResponse().GetHeaderMutation().GetSetHeaders() {
		if f.GetHeader().GetKey() != destinationHeader {
			continue
		}
		to := string(f.GetHeader().GetRawValue())
		if to == "" {
			to = f.GetHeader().GetValue()
		}
		if first, _, _ := strings.Cut(to, ","); !p.endpoints[first] {
			return fmt.Errorf("destination %q is no endpoint", first)
		}
		return nil
	}
	return errors.New("no destination")
}

// finish sends the answer through and waits for the end of the stream.
func (p *Picker) finish(stream grpc.ClientStream) error {
	for _, f := range p.answer {
		if err := stream.SendMsg(f); err != nil {
			return p.why(stream, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var m extprocv3.ProcessingResponse
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	if m.GetResponseHeaders() == nil {
		return fmt.Errorf("wanted response headers, not %T", m.GetResponse())
	}
	at := 0
	for {
		err := stream.RecvMsg(&m)
		if errors.Is(err, io.EOF) && at == len(answerBody) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("at byte %d of the answer: %w", at, err)
		}
		part := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if b := part.GetBody(); at+len(b) > len(answerBody) || string(b) != answerBody[at:at+len(b)] {
			return errors.New("the answer did not come through as it was")
		}
		at += len(part.GetBody())
	}
}
