package jsonscan

import (
	"errors"
	"fmt"
)

// ErrTooDeep says that arrays and objects are nested deeper than allowed.
var ErrTooDeep = errors.New("JSON is nested too deeply")

// SyntaxError says where the input stops being JSON. It never quotes the input.
type SyntaxError struct {
	// Offset is the byte that cannot stand where it stands, counted from 0.
	Offset int64
	// Problem is what is wrong with it.
	Problem string
}

// Error returns the problem and the offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Problem)
}
