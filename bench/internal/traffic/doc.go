// Package traffic reads what passes through a NATS server: all of it from the server's
// monitoring pages, and by subject from a subscriber that counts.
//
// Bytes are those of messages, without their subjects and the protocol's own words.
package traffic
