package watch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told is what a watched file told.
type told struct {
	mu   sync.Mutex
	list []string
}

func (l *told) add(content []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.list = append(l.list, "error")
		return
	case len(content) == 0:
		return // a write that was held up between emptying the file and filling it, for longer than Settle
	}
	l.list = append(l.list, string(content))
}

func (l *told) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.list, ",")
}

// run watches path until the test ends.
func run(t *testing.T, cfg Config, seen string) *told {
	t.Helper()
	f, err := New(cfg, []byte(seen))
	if err != nil {
		t.Fatal(err)
	}
	l := &told{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx, l.add, func(err error) { t.Error(err) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each way to change a file is seen, by notification alone and by polling alone.
func TestChangesAreTold(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir, path, text string){
		"written": func(t *testing.T, _, path, text string) { write(t, path, text) },
		"renamed": func(t *testing.T, dir, path, text string) {
			write(t, filepath.Join(dir, "new"), text)
			if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
				t.Fatal(err)
			}
		},
		// A ConfigMap mount: file → ..data/file, ..data → ..2024_1, and ..data is swapped.
		"link swapped": func(t *testing.T, dir, path, text string) {
			to := filepath.Join(dir, ".."+text)
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(to, "file"), text)
			link := func(target, name string) {
				if err := os.Symlink(target, filepath.Join(dir, "tmp")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "tmp"), name); err != nil {
					t.Fatal(err)
				}
			}
			link(filepath.Base(to), filepath.Join(dir, "..data"))
			if at, err := os.Readlink(path); err != nil || at != "..data/file" {
				link("..data/file", path)
			}
		},
	} {
		for _, poll := range []time.Duration{time.Hour, 10 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				change(t, dir, path, "a")
				l := run(t, Config{Path: path, Poll: poll, Settle: time.Millisecond, MaxBytes: 100}, "a")
				// Watching begins at some time after Run was called.
				kittest.Eventually(t, "the first change", func() bool {
					if l.all() == "" {
						touch(t, dir)
					}
					if _, err := os.Lstat(filepath.Join(dir, "changed")); err != nil {
						write(t, filepath.Join(dir, "changed"), "")
						change(t, dir, path, "b")
					}
					return l.all() == "b"
				})
				change(t, dir, path, "c")
				kittest.Eventually(t, "the second change", func() bool { return l.all() == "b,c" })
			})
		}
	}
}

// touch makes an event in the directory that changes nothing of the file.
func touch(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "touched"), "")
}

func TestFileThatIsGoneComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	l := run(t, Config{Path: path, Poll: 5 * time.Millisecond, Settle: time.Millisecond, MaxBytes: 3}, "a")
	kittest.Eventually(t, "one error", func() bool { return l.all() == "error" })
	write(t, path, "a")
	kittest.Eventually(t, "the old content is told again", func() bool { return l.all() == "error,a" })
	write(t, path, "long")
	kittest.Eventually(t, "too long", func() bool { return l.all() == "error,a,error" })
}

// A file that is still being written is told when it is complete, and only then.
func TestUnfinishedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	l := run(t, Config{Path: path, Poll: time.Hour, Settle: 300 * time.Millisecond, MaxBytes: 1000}, "")
	var want strings.Builder
	for range 40 {
		want.WriteString("x")
		write(t, path, want.String())
		time.Sleep(5 * time.Millisecond)
	}
	kittest.Eventually(t, "the whole", func() bool {
		touch(t, filepath.Dir(path))
		return strings.HasSuffix(l.all(), want.String())
	})
	if n := strings.Count(l.all(), ","); n > 2 {
		t.Errorf("told %d times: %s", n+1, l.all())
	}
}

func TestWrongConfig(t *testing.T) {
	if _, err := New(Config{}, nil); err == nil || !strings.Contains(err.Error(), "no path") || !strings.Contains(err.Error(), "above zero") {
		t.Error(err)
	}
	if err := DefaultConfig("x").Validate(); err != nil {
		t.Error(err)
	}
}
