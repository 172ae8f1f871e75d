// Package state follows what a pool broadcasts over NATS: which endpoints there are,
// how busy they were when last looked at, and which requests every router has given
// them since.
//
// A scorer does not need it: what it asks for comes with each call, or on the stream.
// It is for those that want the picks of all routers at once, that keep state per
// endpoint, or that would rather not be sent every load. Such a scorer is a Type of
// package scorer that implements scorer.TableFollower, and lists
// CAPABILITY_FOLLOWS_BROADCAST and CAPABILITY_TABLE_REFERENCE; [Follower.Candidates]
// finds who a call is about.
//
// The package promises that a late joiner asks for what it missed, that unknown is
// never shown as zero, and that nothing here waits for the network but
// [Follower.Run]. It publishes nothing. It is a module of its own, so that a scorer
// without it needs no NATS client.
package state
