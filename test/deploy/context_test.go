package deploy

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// ignore is a .dockerignore: the last pattern that a path or a directory above it
// matches decides. Of the patterns, "**/" at the beginning and those of path.Match
// are understood.
type ignore []string

func readIgnore(t *testing.T) ignore {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns ignore
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	return patterns
}

func (patterns ignore) matches(name string) bool {
	ignored := false
	for _, p := range patterns {
		p, included := strings.CutPrefix(p, "!")
		for at := name; at != "."; at = path.Dir(at) {
			tried := at
			pattern, anywhere := strings.CutPrefix(p, "**/")
			if anywhere {
				tried = path.Base(at)
			}
			if ok, err := path.Match(pattern, tried); err == nil && ok {
				ignored = !included
			}
		}
	}
	return ignored
}

func TestIgnored(t *testing.T) {
	patterns := readIgnore(t)
	for name, want := range map[string]bool{
		"services/router/main.go":                  false,
		"services/router/go.sum":                   false,
		"internal/kit/bus/bus.go":                  false,
		"proto/gen/go/pointsman/a.pb.go":           false,
		".git/config":                              true,
		"bin/router":                               true,
		"sim/engine/engine.go":                     true,
		"internal/other/x.go":                      true,
		"services/router/app/app_test.go":          true,
		"services/x/internal/a/testdata/big.json":  true,
		"services/router/Dockerfile":               true,
		"services/router/internal/testdatabase.go": false,
	} {
		if got := patterns.matches(name); got != want {
			t.Errorf("%s: ignored %v, want %v", name, got, want)
		}
	}
}

// copyIn does COPY: what is not ignored of source, a path below the root, comes to
// target.
func copyIn(patterns ignore, source, target string) error {
	base := filepath.Join(root, source)
	found := false
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inRoot, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if patterns.matches(filepath.ToSlash(inRoot)) || !d.Type().IsRegular() {
			return nil
		}
		found = true
		inBase, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		to := filepath.Join(target, inBase)
		if inBase == "." { // a file
			to = filepath.Join(target, filepath.Base(source))
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err == nil && !found {
		err = errors.New(source + ": nothing to copy, all is ignored or not there")
	}
	return err
}
