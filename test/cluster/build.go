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
	once sync.Once
	dir  string
	err  error
}

var built binaries

// root returns the repository's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Binary returns the path of a built binary, such as "router" or "pointsman".
func Binary(t testing.TB, name string) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pointsman-bin-"); built.err != nil {
			return
		}
		args := []string{"build", "-o", built.dir + "/"}
		if race {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "./cmd/pointsman", "./services/router", "./services/prefix-indexer", "./services/metrics-collector", "./services/scorer-kv", "./services/scorer-queue")...)
		cmd.Dir = root()
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the binaries: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, name)
}

// Clean removes the binaries; call it at the end of TestMain.
func Clean() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}
