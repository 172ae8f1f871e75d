package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// ErrAway says that Redis was not asked, because it did not answer lately or has not
// answered yet: nothing was sent.
var ErrAway = errors.New("redis is away")

// Kind is a kind of failure, as in metrics.
type Kind string

// Kinds of failure.
const (
	Away        Kind = "away"        // not asked
	Budget      Kind = "budget"      // no answer within the budget
	Unreachable Kind = "unreachable" // no connection, or it broke
	Denied      Kind = "denied"      // who we are, or what we may do
	ReadOnly    Kind = "read_only"   // a replica, or a server without its replicas
	Full        Kind = "full"        // out of memory, or of clients
	Moving      Kind = "moving"      // the cluster is failing over or moving slots
	Loading     Kind = "loading"     // starting, or busy with a script
	Wrong       Kind = "script"      // a command or script was wrong, or found something wrong
)

// KindOf returns the kind of failure that err is, of a call to Redis. It is "" for nil
// and for the absence of a value (redis.Nil).
func KindOf(err error) Kind {
	var refused goredis.Error
	var broken net.Error
	switch {
	case err == nil, errors.Is(err, goredis.Nil):
		return ""
	case errors.Is(err, ErrAway):
		return Away
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, goredis.ErrPoolTimeout),
		errors.As(err, &broken) && broken.Timeout():
		return Budget
	case errors.As(err, &refused):
		return refusal(refused.Error())
	case errors.As(err, &broken), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, goredis.ErrClosed):
		return Unreachable
	}
	return refusal(err.Error())
}

// remedy is what an operator can do about a failure that lasts.
func (k Kind) remedy() string {
	switch k {
	case Unreachable:
		return "start a Redis server there, or set redis.address (redis.addresses, redis.sentinelMaster) to where it is"
	case Budget:
		return "see whether Redis is overloaded or far away; if it is just far, raise redis.budget"
	case Denied:
		return "set redis.username and redis.password; the user needs ~pointsman:* +@all -@dangerous"
	case ReadOnly:
		return "set redis.address to the server that takes writes, or redis.sentinelMaster to be told which that is"
	case Full:
		return "raise Redis's maxmemory or maxclients, or free its disk"
	case Moving:
		return "if it is a Redis Cluster set redis.addresses in place of redis.address; else wait until slots have moved"
	case Wrong:
		return "see the error; Redis 6.2 or later is expected, and keys beginning with pointsman: to be ours"
	}
	return "wait until Redis has started"
}

// refusal sorts what Redis says by its first word.
func refusal(text string) Kind {
	first, _, _ := strings.Cut(text, " ")
	switch first {
	case "NOAUTH", "WRONGPASS", "NOPERM", "DENIED":
		return Denied
	case "READONLY", "MASTERDOWN", "NOREPLICAS":
		return ReadOnly
	case "OOM", "MISCONF":
		return Full
	case "MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED":
		return Moving
	case "LOADING", "BUSY":
		return Loading
	}
	switch {
	case strings.Contains(text, "max number of clients"):
		return Full
	case strings.Contains(text, "invalid password"), strings.Contains(text, "AUTH"):
		return Denied
	case strings.HasPrefix(text, "redis:"), strings.HasPrefix(text, "dial "):
		return Unreachable // words of the client, such as "all sentinels are unreachable"
	}
	return Wrong
}
