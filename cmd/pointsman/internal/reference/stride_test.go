//go:build !race

package reference

// stride is which of the changes are tried: all.
const stride = 1
