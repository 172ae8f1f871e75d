// Package redis tests the whole system where routers share their counts in Redis: real
// router processes and a real redis-server, which is killed, halted and started again.
package redis
