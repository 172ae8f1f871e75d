// Package httpproxy is the router's own front: a reverse proxy for the OpenAI API and
// its relatives, for use without a gateway.
//
// It reads the body of a request into memory, has an endpoint picked for it, sends
// the same bytes there and streams the answer back as it comes. It promises:
//
//   - Bytes are not touched in either direction, content encodings included. Only where
//     a Policy puts another model in the place of the requested one does that value of
//     the body differ, and nothing else; answers name the model that the endpoint knows,
//     and are not changed back. And where a decision has further endpoints take part,
//     package disagg runs the legs and changes of bodies and answers what it must. What
//     changes otherwise is hop-by-hop headers, forwarding headers, x-request-id, and
//     headers that only the router may set: those of the client are removed.
//   - Until the first byte of an answer's body has come nothing is sent to the client,
//     and a connection error, a reset or a 5xx leads to the next endpoint. After it,
//     nothing is ever repeated: a stream that breaks is broken visibly, with an error
//     event where there is a stream of events, and never ended cleanly.
//   - The reservation of a pick is ended exactly once, however the request ends, that of
//     a stage when its work is done. What an endpoint has prefilled is handed over once; a
//     decode leg that may have taken it is retried by a new decision.
//   - A client that leaves cancels the work upstream at once.
//   - There is no limit on the whole of a request, only on silence: before the first
//     byte, between bytes, and while the request's body arrives.
//
// It speaks HTTP/1.1 and HTTP/2 to clients, over TLS where there is a certificate, and
// HTTP/1.1 to endpoints. It
// serves only paths that are listed (see Config.Paths), because engines have others
// that are not for clients. It does not upgrade connections: WebSockets are answered
// 501. It does not authenticate clients, rewrite models in answers, or cache. Bodies that
// are compressed or no JSON cannot be rewritten: they are 415 where they would have to be.
//
// Errors of its own are JSON as the OpenAI API has it, for /v1/messages as Anthropic's
// has it, with the header x-pointsman-reason; errors of the endpoints pass as they are.
package httpproxy
