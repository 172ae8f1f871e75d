package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// Unknown is printed for figures that are not known, which is not zero.
const Unknown = "-"

// Number prints a figure that may be unknown.
func Number(n *uint32) string {
	if n == nil {
		return Unknown
	}
	return strconv.FormatUint(uint64(*n), 10)
}

// Share prints a ratio as a percentage.
func Share(r *float64) string {
	if r == nil {
		return Unknown
	}
	return fmt.Sprintf("%.1f%%", *r*100)
}

// Since prints an age that may be unknown.
func Since(d *durationpb.Duration) string {
	if d == nil {
		return Unknown
	}
	return Short(d.AsDuration())
}

// Short prints a duration with about three digits.
func Short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}

// OrDash prints Unknown for nothing.
func OrDash(s string) string {
	if s == "" {
		return Unknown
	}
	return s
}

// Verdict prints how a scorer call went, in a word.
func Verdict(v routerv1.ScorerVerdict) string {
	return strings.ToLower(strings.TrimPrefix(v.String(), "SCORER_VERDICT_"))
}
