// Package scorer is the server side of the scorer contract,
// pointsman.scorer.v1: it turns a few small [Type] values into a service.
//
// The rules of the contract are the comments of its proto file. The package
// promises that
//
//   - a Type is never called with a request that breaks them, and an answer of a
//     Type that breaks them does not leave the process: it becomes INTERNAL,
//     saying which rule;
//   - Score and ScoreStream give equal answers;
//   - parameters are parsed once, not once per call;
//   - a table that a router has taught on a stream is resolved for Types that do
//     not follow the broadcast: they see listed candidates with loads;
//   - on a stream, calls are answered in order by one goroutine without starting
//     others; a call whose time is over is not begun;
//   - a Type that panics fails that one call.
//
// It serves no health, opens no listener and records no metric by itself: the
// service brings a grpc.Server, which is cheapest with the codec of package wire
// (grpc.ForceServerCodecV2), and [Config] has hooks. It depends on grpc and
// protobuf only, so that scorers outside of this repository can use it.
//
// This is the lower of two doors: types work on the messages themselves, without
// allocating, and may resolve tables on their own. The scorers that come with Pointsman
// use it. Package simple, built on it, hands out plain Go values and brings the
// listener, health and a graceful end; it is enough for most scorers.
package scorer
