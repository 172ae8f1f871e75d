// Package rpc is gRPC the house way: servers and client connections over TCP or Unix sockets, in plain text or TLS.
//
// A server promises:
//   - grpc.health.v1 for "" and for each registered service, driven by the telemetry's Health; NOT_SERVING as soon as it
//     begins to stop; unknown names are NOT_FOUND;
//   - certificates that are replaced on disk are used from the next handshake on, without a restart; a replacement that
//     cannot be read is logged, and the old one stays in use;
//   - a handler that panics fails its own call with INTERNAL, is logged with its stack and counted in
//     pointsman_rpc_panics_total, and nothing else happens;
//   - a stop that lets open calls finish, for [ServerConfig.DrainTimeout] at most. Handlers of streams that stay open
//     for ever learn of it by [Server.OnDrain].
//
// A connection promises:
//   - it is lazy, reconnects quickly (100 ms to 2 s), balances over all addresses of its target, and ignores proxy
//     settings in the environment;
//   - dead peers are noticed by TCP within 30 s, and by HTTP/2 pings only as often as any gRPC server allows, so that
//     nobody answers ENHANCE_YOUR_CALM.
//
// Both have windows of fixed size, 512 KiB for a stream and 2 MiB for a connection: left to itself, gRPC looks for the size
// by pings, one for nearly everything that comes.
//
// It does not count, time or trace calls: otelgrpc on each call costs more CPU than a scorer's work (90 µs), so callers
// record what they need. It has no reflection service and no retries.
package rpc
