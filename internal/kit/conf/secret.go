package conf

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[secret]"

// Secret is a string that is never printed: fmt, slog, YAML and JSON show "[secret]" in its place, and nothing when it
// is empty. Convert it to string where it is used.
type Secret string

// String returns "[secret]", or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format writes String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue logs String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText writes String, for JSON and other encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML writes String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }
