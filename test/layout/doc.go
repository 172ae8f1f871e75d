// Package layout checks that every line is in the room where it belongs: which
// packages may import which.
package layout
