package wire

import (
	"math/rand/v2"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// cut returns the bytes in buffers of at most size bytes.
func cut(b []byte, size int) mem.BufferSlice {
	out := mem.BufferSlice{}
	for len(b) > size {
		out = append(out, mem.SliceBuffer(b[:size]))
		b = b[size:]
	}
	return append(out, mem.SliceBuffer(b))
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func structOf(t testing.TB, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seen is what can be read of a Request, for comparison.
type seen struct {
	Kind        Kind
	EndOfStream bool
	Observe     bool
	Protocol    Protocol
	Headers     [][2]string
	Body        string
}

func see(r *Request) seen {
	s := seen{Kind: r.Kind, EndOfStream: r.EndOfStream, Observe: r.Observe, Protocol: r.Protocol}
	for n, v := range r.Headers.All {
		s.Headers = append(s.Headers, [2]string{n, v})
	}
	for _, b := range r.Body() {
		s.Body += string(b.ReadOnlyData())
	}
	return s
}

// expected is what there is to be seen in a message.
func expected(m *extproc.ProcessingRequest) seen {
	s := seen{Observe: m.GetObservabilityMode()}
	if p := m.GetProtocolConfig(); p != nil {
		mode := func(m filter.ProcessingMode_BodySendMode) Mode {
			if m < 0 || m > 5 {
				return modes
			}
			return Mode(m)
		}
		s.Protocol = Protocol{
			Known: true, Request: mode(p.GetRequestBodyMode()), Response: mode(p.GetResponseBodyMode()),
			NoWait: p.GetSendBodyWithoutWaitingForHeaderResponse(),
		}
	}
	headers := func(k Kind, h *extproc.HttpHeaders) {
		s.Kind, s.EndOfStream = k, h.GetEndOfStream()
		for _, h := range h.GetHeaders().GetHeaders() {
			v := h.GetValue()
			if len(h.GetRawValue()) > 0 {
				v = string(h.GetRawValue())
			}
			s.Headers = append(s.Headers, [2]string{h.GetKey(), v})
		}
	}
	body := func(k Kind, b *extproc.HttpBody) {
		s.Kind, s.EndOfStream, s.Body = k, b.GetEndOfStream(), string(b.GetBody())
	}
	switch r := m.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		headers(RequestHeaders, r.RequestHeaders)
	case *extproc.ProcessingRequest_ResponseHeaders:
		headers(ResponseHeaders, r.ResponseHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		body(RequestBody, r.RequestBody)
	case *extproc.ProcessingRequest_ResponseBody:
		body(ResponseBody, r.ResponseBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		s.Kind = RequestTrailers
	case *extproc.ProcessingRequest_ResponseTrailers:
		s.Kind = ResponseTrailers
	}
	return s
}

func samples(t testing.TB) map[string]*extproc.ProcessingRequest {
	headers := &core.HeaderMap{Headers: []*core.HeaderValue{
		{Key: ":path", RawValue: []byte("/v1/chat/completions")}, {Key: "x-a", Value: "plain"}, {Key: "x-a", RawValue: []byte("again")}, {Key: "empty"},
	}}
	long := make([]byte, 40000)
	for i := range long {
		long[i] = byte(i * 7)
	}
	return map[string]*extproc.ProcessingRequest{
		"nothing": {},
		"request headers": {
			Request:         &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headers, EndOfStream: true}},
			ProtocolConfig:  &extproc.ProtocolConfiguration{RequestBodyMode: 4, ResponseBodyMode: 1, SendBodyWithoutWaitingForHeaderResponse: true},
			MetadataContext: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"a": structOf(t, map[string]any{"k": "v"}), "b": structOf(t, nil)}},
			Attributes:      map[string]*structpb.Struct{"f": structOf(t, map[string]any{"response.flags": 7})},
		},
		"all modes off":        {Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{}}, ProtocolConfig: &extproc.ProtocolConfiguration{}},
		"a mode of the future": {ProtocolConfig: &extproc.ProtocolConfiguration{RequestBodyMode: 77, ResponseBodyMode: -1}},
		"response headers":     {Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: headers}}, ObservabilityMode: true},
		"request body":         {Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: long, EndOfStream: true}}},
		"response body":        {Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte("x")}}},
		"no bytes":             {Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{}}},
		"request trailers":     {Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{Trailers: headers}}},
		"response trailers":    {Request: &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{}}},
	}
}

func TestRequestIsReadAsTheGeneratedCodeReadsIt(t *testing.T) {
	for name, m := range samples(t) {
		t.Run(name, func(t *testing.T) {
			b := encode(t, m)
			for _, size := range []int{1, 2, 3, 7, 100, 16384, 1 << 20} {
				if size < 100 && len(b) > 1000 {
					continue
				}
				var r Request
				if err := Codec().Unmarshal(cut(b, size), &r); err != nil {
					t.Fatalf("in buffers of %d: %v", size, err)
				}
				if d := cmp.Diff(expected(m), see(&r)); d != "" {
					t.Errorf("in buffers of %d (-want +got):\n%s", size, d)
				}
			}
		})
	}
}

// Whoever sends the fields of one message in two pieces is understood too.
func TestRepeatedFieldsAreMerged(t *testing.T) {
	first := &extproc.ProcessingRequest{
		Request:        &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: &core.HeaderMap{Headers: []*core.HeaderValue{{Key: "a", Value: "1"}}}}},
		ProtocolConfig: &extproc.ProtocolConfiguration{RequestBodyMode: 2},
	}
	second := &extproc.ProcessingRequest{
		Request:        &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: &core.HeaderMap{Headers: []*core.HeaderValue{{Key: "b", Value: "2"}}}, EndOfStream: true}},
		ProtocolConfig: &extproc.ProtocolConfiguration{ResponseBodyMode: 4},
	}
	var r Request
	if err := r.unmarshal(cut(append(encode(t, first), encode(t, second)...), 5)); err != nil {
		t.Fatal(err)
	}
	want := seen{
		Kind: RequestHeaders, EndOfStream: true, Headers: [][2]string{{"a", "1"}, {"b", "2"}},
		Protocol: Protocol{Known: true, Request: Buffered, Response: FullDuplex},
	}
	if d := cmp.Diff(want, see(&r)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMetadataAndAttributes(t *testing.T) {
	m := samples(t)["request headers"]
	var r Request
	if err := r.unmarshal(cut(encode(t, m), 3)); err != nil {
		t.Fatal(err)
	}
	if v := r.Metadata("a", "k").GetStringValue(); v != "v" {
		t.Errorf("a.k is %q", v)
	}
	for _, miss := range [][2]string{{"a", "x"}, {"b", "k"}, {"c", "k"}} {
		if v := r.Metadata(miss[0], miss[1]); v != nil {
			t.Errorf("%v is %v", miss, v)
		}
	}
	if v := r.Attribute("response.flags").GetNumberValue(); v != 7 {
		t.Errorf("the attribute is %v", v)
	}
	if v := r.Attribute("response.code"); v != nil {
		t.Errorf("an attribute that is not there is %v", v)
	}
}

func TestHeadersGet(t *testing.T) {
	var r Request
	if err := r.unmarshal(cut(encode(t, samples(t)["request headers"]), 1000)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x-a": "plain", "X-A": "plain", ":path": "/v1/chat/completions", "empty": "", "none": ""} {
		if got := r.Headers.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func parts(ss ...string) []mem.Buffer {
	var out []mem.Buffer
	for _, s := range ss {
		out = append(out, mem.SliceBuffer(s))
	}
	return out
}

func TestResponsesAreWhatTheGeneratedCodeReads(t *testing.T) {
	option := func(name, value string) *core.HeaderValueOption {
		return &core.HeaderValueOption{
			Header: &core.HeaderValue{Key: name, RawValue: []byte(value)}, AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}
	}
	where := Metadata{"envoy.lb", "x-dest", "10.0.0.1:80"}
	dynamic := structOf(t, map[string]any{"envoy.lb": map[string]any{"x-dest": "10.0.0.1:80"}})
	long := string(make([]byte, 70000))
	for _, c := range []struct {
		name string
		make func(r *Response)
		want *extproc.ProcessingResponse
	}{
		{"neutral request headers", func(r *Response) { r.Neutral(RequestHeaders) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{}}}},
		{"neutral response headers", func(r *Response) { r.Neutral(ResponseHeaders) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}}}},
		{"neutral request body", func(r *Response) { r.Neutral(RequestBody) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{}}}},
		{"neutral response body", func(r *Response) { r.Neutral(ResponseBody) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{}}}},
		{"neutral request trailers", func(r *Response) { r.Neutral(RequestTrailers) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}}},
		{"neutral response trailers", func(r *Response) { r.Neutral(ResponseTrailers) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}}},
		{"headers", func(r *Response) {
			r.Mutate(RequestHeaders, &Mutation{Set: []Header{{"a", "1"}, {"b", ""}}, Remove: []string{"c", "d"}, ClearRouteCache: true, Metadata: where})
		}, &extproc.ProcessingResponse{DynamicMetadata: dynamic, Response: &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{
			Response: &extproc.CommonResponse{ClearRouteCache: true, HeaderMutation: &extproc.HeaderMutation{
				SetHeaders: []*core.HeaderValueOption{option("a", "1"), option("b", "")}, RemoveHeaders: []string{"c", "d"},
			}},
		}}}},
		{"streamed", func(r *Response) { r.Streamed(RequestBody, parts("ab", "cde", long), true, Metadata{}) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{Response: &extproc.CommonResponse{
				BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: &extproc.StreamedBodyResponse{Body: []byte("abcde" + long), EndOfStream: true}}},
			}}}}},
		{"streamed nothing", func(r *Response) { r.Streamed(ResponseBody, nil, false, where) },
			&extproc.ProcessingResponse{DynamicMetadata: dynamic, Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{Response: &extproc.CommonResponse{
				BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: &extproc.StreamedBodyResponse{}}},
			}}}}},
		{"another body", func(r *Response) {
			r.Mutate(RequestBody, &Mutation{Set: []Header{{"content-length", "3"}}, Body: parts("a", "bc"), ReplaceBody: true, Metadata: where, ClearRouteCache: true})
		}, &extproc.ProcessingResponse{DynamicMetadata: dynamic, Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{Response: &extproc.CommonResponse{
			ClearRouteCache: true, HeaderMutation: &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{option("content-length", "3")}},
			BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_Body{Body: []byte("abc")}},
		}}}}},
		{"no body", func(r *Response) { r.Mutate(RequestBody, &Mutation{ReplaceBody: true}) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{Response: &extproc.CommonResponse{
				BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_ClearBody{ClearBody: true}},
			}}}}},
		{"trailers", func(r *Response) { r.Mutate(RequestTrailers, &Mutation{Remove: []string{"x"}}) },
			&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{HeaderMutation: &extproc.HeaderMutation{RemoveHeaders: []string{"x"}}}}}},
		{"immediate", func(r *Response) {
			r.Immediate(&Immediate{Status: 429, Headers: []Header{{"content-type", "application/json"}}, Body: []byte("{}"), Details: "shed"})
		}, &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
			Status: &types.HttpStatus{Code: 429}, Headers: &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{option("content-type", "application/json")}},
			Body: []byte("{}"), Details: "shed",
		}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Response
			r.Neutral(RequestBody) // is replaced
			c.make(&r)
			data, err := Codec().Marshal(&r)
			if err != nil {
				t.Fatal(err)
			}
			got, whole := new(extproc.ProcessingResponse), make([]byte, data.Len())
			data.CopyTo(whole)
			if err := proto.Unmarshal(whole, got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if again, _ := Codec().Marshal(&r); len(again) != 0 {
				t.Error("it can be sent twice")
			}
		})
	}
}

// Every buffer is given back: those that are sent by gRPC, the others by Reset.
func TestBuffersAreGivenBack(t *testing.T) {
	pool := &countingPool{}
	b := encode(t, samples(t)["request body"])
	var data mem.BufferSlice
	for len(b) > 0 {
		n := min(len(b), 16384)
		held := make([]byte, n)
		copy(held, b)
		data = append(data, mem.NewBuffer(&held, pool))
		b = b[n:]
	}
	var r Request
	if err := r.unmarshal(data); err != nil {
		t.Fatal(err)
	}
	count := len(data)
	data.Free() // as gRPC does
	body := r.TakeBody(nil)
	r.Reset()
	if pool.back != 0 {
		t.Fatalf("%d buffers went back while their bytes were in use", pool.back)
	}
	var out Response
	out.Streamed(RequestBody, body, true, Metadata{})
	sent, err := Codec().Marshal(&out)
	if err != nil {
		t.Fatal(err)
	}
	sent.Free() // as gRPC does
	if pool.back != count {
		t.Errorf("%d of %d buffers were given back", pool.back, count)
	}
}

type countingPool struct{ back int }

func (p *countingPool) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (p *countingPool) Put(*[]byte)       { p.back++ }

func TestOtherMessagesAreLeftToGRPC(t *testing.T) {
	in := &extproc.HttpBody{Body: []byte("x")}
	data, err := Codec().Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := new(extproc.HttpBody)
	if err := Codec().Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestModesAreSpelled(t *testing.T) {
	for m, want := range map[Mode]string{None: "NONE", Streamed: "STREAMED", Buffered: "BUFFERED", BufferedPartial: "BUFFERED_PARTIAL", FullDuplex: "FULL_DUPLEX_STREAMED", GRPC: "GRPC", 6: "UNKNOWN"} {
		if m.String() != want {
			t.Errorf("%d is %s, want %s", m, m, want)
		}
		if got, ok := ParseMode(want); ok != (m < modes) || ok && got != m {
			t.Errorf("%s is read as %d, %v", want, got, ok)
		}
	}
}

// Any bytes are read as the generated code reads them, or refused; in whatever buffers
// they come.
func FuzzRequest(f *testing.F) {
	for _, m := range samples(f) {
		f.Add(encode(f, m), uint64(1))
	}
	f.Add([]byte{0x22, 0x04, 0x0a, 0x05, 'x'}, uint64(2))        // a body longer than its message
	f.Add([]byte{0x0b, 0x13, 0x14, 0x0c}, uint64(3))             // groups
	f.Add([]byte{0x12, 0x02, 0x0a, 0x00, 0x12, 0x00}, uint64(4)) // twice
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test's
		var data mem.BufferSlice
		for rest := b; ; {
			n := random.IntN(len(rest) + 1)
			data = append(data, mem.SliceBuffer(rest[:n]))
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
		var r Request
		err := r.unmarshal(data)
		got := see(&r)
		r.Metadata("a", "k")
		r.Attribute("a")
		var m extproc.ProcessingRequest
		if proto.Unmarshal(b, &m) != nil {
			return // ours may be more lenient
		}
		if err != nil {
			t.Fatalf("%v, but it is a ProcessingRequest: %v", err, &m)
		}
		if d := cmp.Diff(expected(&m), got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}
