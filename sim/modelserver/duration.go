package modelserver

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that is written "50ms" in JSON.
type Duration time.Duration

// MarshalText writes d as time.Duration's String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 50ms or 3s", text)
	}
	*d = Duration(v)
	return nil
}
