package edge

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// Headers that fronts read or set, in lower case.
const (
	HeaderRequestID   = "x-request-id"
	HeaderReason      = "x-pointsman-reason"
	HeaderEndpoint    = "x-pointsman-endpoint"
	HeaderObjective   = "x-gateway-inference-objective"
	HeaderFairness    = "x-gateway-inference-fairness-id"
	HeaderModel       = "x-gateway-model-name-rewrite"
	HeaderDestination = "x-gateway-destination-endpoint"
	HeaderSubset      = "x-gateway-destination-endpoint-subset"
	HeaderServed      = "x-gateway-destination-endpoint-served"
	// OwnPrefix begins all that are Pointsman's alone.
	OwnPrefix = "x-pointsman-"
)

// routing are the headers by which routers and engines tell each other where a request
// goes, besides those with OwnPrefix.
var routing = [...]string{
	HeaderDestination, HeaderSubset, HeaderServed, HeaderModel,
	HeaderPrefiller, "x-prefiller-url", HeaderEncoders, HeaderDataParallel, "x-kv-cache-source-host-port",
}

// RoutingHeaders returns the headers that Routing is true for, in lower case, without
// those with OwnPrefix.
func RoutingHeaders() []string { return routing[:len(routing):len(routing)] }

// Routing is true for headers that only routers may set, in any case: from a client they
// would be an attack.
func Routing(name string) bool {
	if len(name) < len(OwnPrefix) || name[0]|0x20 != 'x' || name[1] != '-' {
		return false
	}
	for _, r := range routing {
		if len(r) == len(name) && strings.EqualFold(r, name) {
			return true
		}
	}
	return strings.EqualFold(name[:len(OwnPrefix)], OwnPrefix)
}

// maxID is the longest request id or session id that is taken over from a client.
const maxID = 128

// UsableID is true for an id that can be taken over from a client: short, and printable
// without spaces. Empty is not.
func UsableID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// NewID returns a new request id: 128 random bits in hexadecimal.
func NewID() string {
	var raw [16]byte
	var text [32]byte
	binary.BigEndian.PutUint64(raw[:], rand.Uint64())
	binary.BigEndian.PutUint64(raw[8:], rand.Uint64())
	hex.Encode(text[:], raw[:])
	return string(text[:])
}
