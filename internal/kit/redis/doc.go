// Package redis is a process's connection to Redis: one server, Redis Cluster, or a
// server that sentinels name, with TLS and ACL users.
//
// It promises:
//
//   - No call takes longer than its budget, and while Redis is away no call takes any
//     time: a breaker opens after a few failures, and calls then fail at once with
//     [ErrAway], which also says that nothing was sent.
//   - Requests are never used to find out whether Redis is back. The client's part does
//     that, with jitter, for ever; the breaker closes only after a ping came back within
//     the budget and everybody who asked to be part of the test ([Client.OnProbe]) has
//     succeeded, such as a write.
//   - A command is executed at most once per call: nothing is repeated behind the
//     caller's back, except what Redis has refused (MOVED, ASK, READONLY).
//   - A service does not become unready without Redis. That it is away shows in
//     pointsman_redis_connected, pointsman_redis_breaker_state, beside the readiness
//     (telemetry.Health.Note) and in one line in the log.
//
// It knows nothing of what is kept in Redis. Redis 6.2 or later is expected.
package redis
