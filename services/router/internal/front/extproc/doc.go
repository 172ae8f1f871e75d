// Package extproc is the front for gateways: an endpoint picker that Envoy and its
// kin ask by the external processing protocol (envoy.service.ext_proc.v3), in the
// place of the Inference Gateway's.
//
// A gRPC stream is one HTTP exchange. The front reads the request, has an endpoint
// picked, and tells the proxy where to send it; then it watches the answer go by. It
// promises:
//
//   - Nothing is sent twice and nothing out of order: headers, then the body in parts
//     of at most 62,000 bytes with end-of-stream on the last alone, then trailers.
//     What comes after the end of a stream is answered without effect.
//   - Bodies are not touched. They go back in the buffers in which they came. Only
//     where a model is to be rewritten does the body differ, in that one value.
//   - Headers that only routers may set are removed from what clients send, and the
//     destination replaces whatever was there.
//   - A decision never takes much longer than DecisionTimeout: scorers that have not
//     answered by then are decided without.
//   - The reservation of a pick is ended exactly once, however the stream ends. A
//     stream that the proxy cancels has ended as well as any other.
//   - Parts of an answer are answered at once; none is held back.
//
// # Modes of bodies
//
// A model is rewritten where all of the body is known at the decision. Where it is not,
// the request goes on as it is, which is counted (…_unrewritten_total) and logged once.
//
// The proxy tells its modes in its first message; see Config.AssumedMode for those
// that do not. For requests:
//
//	FULL_DUPLEX_STREAMED  all is known at the decision; the mode of the endpoint picker protocol
//	BUFFERED              all is known at the decision; the proxy limits the body
//	BUFFERED_PARTIAL      as BUFFERED up to the proxy's limit; above it the model may be known and the prompt is not
//	STREAMED              decided by the headers: the proxy sends them on before the body. With
//	                      send_body_without_waiting_for_header_response, all is known if the body
//	                      comes within DecisionTimeout
//	NONE                  decided by the headers
//	GRPC, and those of the future: decided by the headers, then the stream is closed and the proxy goes on alone
//
// For answers all but GRPC are served. With NONE, or without headers, less is seen of
// the answer: a reservation then ends when the proxy closes the stream, which it does
// early unless response_trailer_mode is SEND.
//
// Requests that need no body to be decided on are decided by their headers in every
// mode: GET and the like, upgrades, gRPC.
//
// A proxy must send the headers of requests (request_header_mode: SEND): without them the
// destination goes out in the metadata alone.
//
// It does not authenticate the proxy beyond TLS, does not retry (proxies do, over the
// endpoints it names), and does not change answers except for headers of routers.
package extproc
