package bus

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
)

// longestID is the length in bytes of a publisher id.
const longestID = 128

// NewPublisherID returns an identity for this process: the service's name, the
// host's name and 8 random hexadecimal digits, such as "router-node7-9f3c01ab".
// It is new at every call, at most 128 bytes, and its characters may stand in a
// NATS subject.
func NewPublisherID(service string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	var random [4]byte
	rand.Read(random[:]) // never fails
	return legible(service) + "-" + legible(host) + "-" + hex.EncodeToString(random[:])
}

// legible keeps what a subject token may hold, at most 48 bytes of it.
func legible(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
			return r
		}
		return '-'
	}, s)
	return s[:min(len(s), 48)]
}
