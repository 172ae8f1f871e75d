package bus

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Subject is the noun of a subject: what its messages are about.
type Subject string

// Broadcasts, and questions that are answered by whoever knows (Get…).
const (
	Table       Subject = "table"        // statev1.EndpointTable
	Load        Subject = "load"         // statev1.EndpointLoads
	Policy      Subject = "policy"       // statev1.PoolPolicy
	Outcome     Subject = "outcome"      // statev1.OutcomeBatch
	Prefix      Subject = "prefix"       // statev1.PrefixBatch
	Collector   Subject = "collector"    // statev1.CollectorHeartbeat
	GetState    Subject = "get.state"    // statev1.GetStateRequest
	GetPicks    Subject = "get.picks"    // statev1.GetPicksRequest
	GetPrefixes Subject = "get.prefixes" // statev1.GetPrefixesRequest
)

const (
	root = "pointsman.v1."
	// escape begins every token that is not the name itself.
	escape = "x_"
	// digest follows escape where the name is too long to be spelt out. It is not
	// a letter of base32hex, so no spelt-out name looks like a digest.
	digest      = "z"
	longestName = 64
)

// Token returns name as one token of a NATS subject: letters, digits, "-" and "_"
// only. Different names have different tokens. Names of at most 64 such
// characters that do not begin with "x_" stand as they are; others become "x_"
// and their bytes in lower-case base32hex without padding, or, if longer than 64
// bytes, "x_z" and the SHA-256 of their bytes in the same alphabet.
func Token(name string) string {
	if plain(name) {
		return name
	}
	base32hex := base32.HexEncoding.WithPadding(base32.NoPadding)
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		return escape + digest + strings.ToLower(base32hex.EncodeToString(sum[:]))
	}
	return escape + strings.ToLower(base32hex.EncodeToString([]byte(name)))
}

func plain(name string) bool {
	if name == "" || len(name) > longestName || strings.HasPrefix(name, escape) {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
