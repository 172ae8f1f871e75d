//go:build !unix

package processors

import "time"

// used returns false: this system does not tell.
func used() (time.Duration, bool) { return 0, false }
