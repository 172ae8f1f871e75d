package conf

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

const wantsDuration = "a duration such as 50ms, 2s or 1m30s"

// Duration is a time.Duration that is written with its unit: 50ms, 2s, 1m30s. A bare number is an error
// (0 is not: it needs no unit).
type Duration time.Duration

// D returns d as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes d as UnmarshalText reads it.
func (d Duration) String() string { return time.Duration(d).String() }

// LogValue logs d as a duration.
func (d Duration) LogValue() slog.Value { return slog.DurationValue(time.Duration(d)) }

// MarshalText writes d as UnmarshalText reads it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as [time.ParseDuration] does.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := parseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("wants a duration with a unit, got %s; write %sms or %ss", s, s, s)
	}
	return 0, fmt.Errorf("wants %s, got %q", wantsDuration, shorten(s))
}
