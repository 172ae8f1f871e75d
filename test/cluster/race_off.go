//go:build !race

package cluster

// race says whether this test runs under the race detector; then so do the binaries.
const race = false
