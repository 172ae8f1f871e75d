package kittest

import (
	"testing"
	"time"
)

const (
	pollInterval = 5 * time.Millisecond
	patience     = time.Minute // passed only when something is broken: tests share few cores
)

// Eventually calls f every 5 ms until it returns true, and fails the test with
// what, a phrase such as "the table arrives", after a minute. f runs on the test's
// goroutine, so it may call t.Fatal.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !poll(patience, f) {
		t.Fatalf("waited %v in vain until %s", patience, what)
	}
}

func poll(limit time.Duration, f func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(pollInterval) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
