package deploy

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const version = "v9.8.7-test"

// follow does what a build stage says in a directory of its own, with the machine's
// Go in place of the image's, and returns the directory that stands for /out.
func follow(t *testing.T, build stage) string {
	t.Helper()
	src, out := t.TempDir(), t.TempDir()
	patterns := readIgnore(t)
	env := append(os.Environ(), "GOFLAGS=", "GOWORK=", "PWD="+src)
	given := map[string]string{"VERSION": version, "TARGETOS": runtime.GOOS, "TARGETARCH": runtime.GOARCH}
	for _, step := range build.steps {
		words := strings.Fields(step.args)
		switch step.name {
		case "ENV":
			env = append(env, words...)
		case "ARG":
			for _, w := range words {
				name, value, _ := strings.Cut(w, "=")
				if v, ok := given[name]; ok {
					value = v
					delete(given, name)
				}
				env = append(env, name+"="+value)
			}
		case "WORKDIR":
			if step.args != "/src" {
				t.Fatalf("WORKDIR %s: this test knows /src", step.args)
			}
		case "COPY":
			for _, source := range words[:len(words)-1] {
				if err := copyIn(patterns, source, filepath.Join(src, words[len(words)-1])); err != nil {
					t.Fatalf("COPY %s: %v", step.args, err)
				}
			}
		case "RUN":
			for len(words) > 0 && strings.HasPrefix(words[0], "--mount=") {
				words = words[1:]
			}
			cmd := exec.Command("sh", "-ec", strings.ReplaceAll(strings.Join(words, " "), " /out/", " "+out+"/"))
			cmd.Dir, cmd.Env = src, env
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", step.args, err, text)
			}
		default:
			t.Fatalf("%s: this test does not know it", step.name)
		}
	}
	for name := range given {
		t.Errorf("the stage has no ARG %s", name)
	}
	return out
}

// build follows the Dockerfile of a service and returns the binary.
func build(t *testing.T, service string) string {
	t.Helper()
	_, stage, _ := dockerfile(t, service)
	for _, want := range []string{"CGO_ENABLED=0", "GOWORK=off"} {
		if !slices.Contains(strings.Fields(strings.Join(stage.all("ENV"), " ")), want) {
			t.Errorf("ENV lacks %s", want)
		}
	}
	return filepath.Join(follow(t, stage), service)
}

// checkStatic finds what an image from scratch could not load.
func checkStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s asks for a dynamic linker", binary)
		}
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s asks for the libraries %v, %v", binary, libraries, err)
	}
}

// checkQuiet finds a binary that was not linked with the setting of Go's runtime that
// keeps its monitor from going to sleep and being woken with every request.
func checkQuiet(t *testing.T, binary string) {
	t.Helper()
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("schedtrace=2147483647")) {
		t.Errorf("%s is not linked with -X runtime.godebugDefault=schedtrace=2147483647", binary)
	}
}

// checkVersion asks a running service who it is.
func checkVersion(t *testing.T, admin, service string) {
	t.Helper()
	r, err := http.Get("http://" + admin + "/buildinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var info struct{ Service, Version string }
	if err := json.NewDecoder(r.Body).Decode(&info); err != nil {
		t.Fatal(err)
	}
	if info.Service != service || info.Version != version {
		t.Errorf("/buildinfo says %+v, want %s %s", info, service, version)
	}
}
