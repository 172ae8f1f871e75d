package run

import (
	"fmt"
	"runtime"
)

// PanicText is what may be written of a panic's value: it could hold a prompt or a
// secret, unless it is the runtime's.
func PanicText(v any) string {
	if e, ok := v.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}
