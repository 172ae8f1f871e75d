// Package bus is the pool's broadcast: typed messages over NATS.
//
// Every message is a protobuf message on a subject of the form
// "pointsman.v1.<pool>.<noun>". Broadcast messages carry a stamp: who says it,
// and which of that publisher's messages on the subject it is.
//
// The bus promises:
//
//   - NATS may be away at the start and at any time after. It is waited for,
//     with a log line that names the URL, and reconnected to for ever. Every
//     subscription is made anew on each connection.
//   - Nothing is kept for later: a message that cannot be sent now is an error
//     now. State that is old when it arrives would be worse than none.
//   - Messages of one subject are handed over one at a time, in the order of
//     their publisher, each at most once. What was lost in between is told in
//     [Meta] and counted.
//   - A message larger than the server takes is refused here, so the connection
//     and everybody else's messages are unaffected.
//   - After connecting, a message to a subject of the bus's own must come back
//     before the bus calls itself connected. Missing permissions show at once.
//   - After the first connection, losing NATS does not make a service unready.
//
// It does not persist, acknowledge or retry messages, and it does not hide a
// publisher's own messages from itself: the caller compares
// [Bus.PublisherID] with the stamp.
//
// A NATS user of a pool needs leave to publish and subscribe on
// "pointsman.v1.<pool>.>", and on nothing else: the inboxes for answers are
// below that subject too.
package bus
