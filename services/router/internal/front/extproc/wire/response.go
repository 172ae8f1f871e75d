package wire

import (
	"google.golang.org/grpc/mem"
)

// Response is a ProcessingResponse that is ready to be sent. It is sent once: it
// holds nothing afterwards.
type Response struct {
	parts mem.BufferSlice
}

// Header is a header to be set.
type Header struct{ Name, Value string }

// Metadata is a value in the proxy's dynamic metadata.
type Metadata struct{ Namespace, Key, Value string }

// Mutation is what the proxy is to change.
type Mutation struct {
	// Set are headers that get exactly this value.
	Set []Header
	// Remove are headers that are removed. Proxies remove before they set.
	Remove []string
	// ClearRouteCache has the proxy choose the route anew.
	ClearRouteCache bool
	// Metadata is set if its Namespace is not empty.
	Metadata Metadata
	// Body replaces the body of the message that is answered, if ReplaceBody is
	// true. Its parts are sent once.
	Body        []mem.Buffer
	ReplaceBody bool
}

// Immediate is an answer to the client in place of everything else.
type Immediate struct {
	// Status is an HTTP status.
	Status int
	// Headers are added to the answer.
	Headers []Header
	// Body is its body.
	Body []byte
	// Details appear in the proxy's access log. Without spaces.
	Details string
}

// neutral are the answers that change nothing, by field number.
var neutral = [...]mem.Buffer{
	1: mem.SliceBuffer{1<<3 | 2, 0}, 2: mem.SliceBuffer{2<<3 | 2, 0}, 3: mem.SliceBuffer{3<<3 | 2, 0},
	4: mem.SliceBuffer{4<<3 | 2, 0}, 5: mem.SliceBuffer{5<<3 | 2, 0}, 6: mem.SliceBuffer{6<<3 | 2, 0},
}

// Neutral makes it an answer that changes nothing.
func (r *Response) Neutral(k Kind) {
	r.Drop()
	r.parts = mem.BufferSlice{neutral[k-1]}
}

// Streamed makes it the next part of a body in full duplex. The parts of body are
// sent once.
func (r *Response) Streamed(k Kind, body []mem.Buffer, endOfStream bool, m Metadata) {
	r.Drop()
	size := total(body)
	e := newEncoder(64+metadataSize(m), size)
	if size > 0 {
		e.begin(1, 0) // StreamedBodyResponse.body
	}
	if endOfStream {
		e.number(2, 1)
	}
	e.begin(3, 0) // BodyMutation.streamed_response
	e.begin(3, 0) // CommonResponse.body_mutation
	e.begin(1, 0) // BodyResponse.response
	e.begin(int(k)-1, 0)
	e.metadata(m)
	r.set(&e, body)
}

// Mutate makes it an answer to the message that changes something.
func (r *Response) Mutate(k Kind, m *Mutation) {
	r.Drop()
	body := m.Body
	size := total(body)
	e := newEncoder(64+metadataSize(m.Metadata)+headersSize(m.Set, m.Remove), size)
	if k == RequestTrailers || k == ResponseTrailers {
		e.headers(1, 0, m.Set, m.Remove) // TrailersResponse.header_mutation
	} else {
		if m.ReplaceBody {
			if size > 0 {
				e.begin(1, 0) // BodyMutation.body
			} else {
				e.number(2, 1) // BodyMutation.clear_body
			}
			e.begin(3, 0) // CommonResponse.body_mutation
		}
		if m.ClearRouteCache {
			e.number(5, 1)
		}
		e.headers(2, e.end(), m.Set, m.Remove)
		e.begin(1, 0) // HeadersResponse.response, BodyResponse.response
	}
	e.begin(int(k)-1, 0)
	e.metadata(m.Metadata)
	r.set(&e, body)
}

// Immediate makes it an answer to the client.
func (r *Response) Immediate(m *Immediate) {
	r.Drop()
	e := newEncoder(64+headersSize(m.Headers, nil)+len(m.Details)+len(m.Body), 0)
	e.text(5, m.Details)
	e.text(3, string(m.Body))
	e.headers(2, e.end(), m.Headers, nil)
	end := e.end()
	e.number(1, uint64(m.Status)) //nolint:gosec // an HTTP status
	e.begin(1, end)
	e.begin(7, 0)
	r.set(&e, nil)
}

// set takes over what was encoded and the body that comes after it.
func (r *Response) set(e *encoder, body []mem.Buffer) {
	// gRPC goes on using the array after it has been sent, so there is no reusing it.
	r.parts = e.finish(body)
}

// Drop lets go of an answer that was not sent.
func (r *Response) Drop() {
	r.parts.Free()
	r.parts = nil
}

// take hands the parts over.
func (r *Response) take() mem.BufferSlice {
	parts := r.parts
	r.parts = nil
	return parts
}

func total(parts []mem.Buffer) int {
	n := 0
	for _, b := range parts {
		n += b.Len()
	}
	return n
}

// headers writes a HeaderMutation that ends at the mark. Nothing, if it is empty.
func (e *encoder) headers(field, end int, set []Header, remove []string) {
	if len(set) == 0 && len(remove) == 0 {
		return
	}
	for i := len(remove) - 1; i >= 0; i-- {
		e.text(2, remove[i])
	}
	for i := len(set) - 1; i >= 0; i-- {
		const overwriteIfExistsOrAdd = 2
		option := e.end()
		e.number(3, overwriteIfExistsOrAdd) // HeaderValueOption.append_action
		header := e.end()
		e.text(3, set[i].Value) // HeaderValue.raw_value
		e.text(1, set[i].Name)  // HeaderValue.key
		e.begin(1, header)      // HeaderValueOption.header
		e.begin(1, option)      // HeaderMutation.set_headers
	}
	e.begin(field, end)
}

func headersSize(set []Header, remove []string) int {
	n := 8
	for _, h := range set {
		n += len(h.Name) + len(h.Value) + 20
	}
	for _, name := range remove {
		n += len(name) + 4
	}
	return n
}

// metadata writes ProcessingResponse.dynamic_metadata in front of everything.
func (e *encoder) metadata(m Metadata) {
	if m.Namespace == "" {
		return
	}
	end := e.end()
	e.text(3, m.Value)     // Value.string_value
	e.begin(2, end)        // the entry's value
	e.text(1, m.Key)       // the entry's key
	e.begin(1, end)        // Struct.fields
	e.begin(5, end)        // Value.struct_value
	e.begin(2, end)        // the entry's value
	e.text(1, m.Namespace) // the entry's key
	e.begin(1, end)        // Struct.fields
	e.begin(8, end)
}

func metadataSize(m Metadata) int { return len(m.Namespace) + len(m.Key) + len(m.Value) + 32 }
