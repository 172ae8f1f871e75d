// Package session serves session-affinity-scorer, which sends a client back to the
// endpoint that answered it before: 1 for that endpoint, 0 for all others.
//
// The endpoint is named by a token that the router puts into a header of every answer
// and the client sends back: base64 of "pool/endpoint id". The service says so by
// InputNeeds.session_header_name and keeps nothing itself, so any replica can answer.
//
// A request without a token, with one of another pool, or with one that names nobody
// among the candidates is abstained on: the others decide, and the answer brings a new
// token. A token is no secret and proves nothing; it only states a wish.
package session
