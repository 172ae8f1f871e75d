//go:build race

package reference

// stride is which of the changes are tried. It has no common divisor with the seven values
// that each place is given in turn.
const stride = 6
