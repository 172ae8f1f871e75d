package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binaries are built by the first test that needs them.
type binaries struct {
	race bool
	once sync.Once
	dir  string
	err  error
}

// plain and racy are the two ways to build. Tests of how well requests are spread
// take plain binaries even under the race detector, which slows a process ten times.
var plain, racy = &binaries{}, &binaries{race: race}

// root returns the repository's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Binary returns the path of a built binary, such as "router" or "pointsman"; under
// the race detector if the test is.
func Binary(t testing.TB, name string) string {
	t.Helper()
	return racy.path(t, name)
}

// PlainBinary is Binary without the race detector.
func PlainBinary(t testing.TB, name string) string {
	t.Helper()
	if race {
		return plain.path(t, name)
	}
	return racy.path(t, name)
}

func (b *binaries) path(t testing.TB, name string) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "pointsman-bin-"); b.err != nil {
			return
		}
		// Without what debuggers need, which takes a third of the linker's time.
		args := []string{"build", "-ldflags=-s -w", "-o", b.dir + "/"}
		if b.race {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "./cmd/pointsman", "./services/router", "./services/prefix-indexer", "./services/metrics-collector", "./services/scorer-kv", "./services/scorer-queue", "./services/disagg-sidecar")...)
		cmd.Dir = root()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build the binaries: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, name)
}

// Clean removes the binaries; call it at the end of TestMain.
func Clean() {
	for _, b := range []*binaries{plain, racy} {
		if b.dir != "" {
			_ = os.RemoveAll(b.dir)
		}
	}
}
