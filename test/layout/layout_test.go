package layout

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "github.com/pointsman/pointsman/"

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Standard     bool
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports,Standard", "work")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, root)
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list found %d packages: the workspace is not read", len(all))
	}
	return all
}

// ours returns the imports that are in this repository, without the root.
func ours(imports []string) []string {
	var in []string
	for _, i := range imports {
		if p, ok := strings.CutPrefix(i, root); ok {
			in = append(in, p)
		}
	}
	return in
}

func under(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// module returns the module that a package is in.
func module(path string) string {
	parts := strings.Split(path, "/")
	switch parts[0] {
	case "services", "internal", "cmd", "sdk":
		return strings.Join(parts[:2], "/")
	}
	return parts[0]
}

func TestModulesImportDownwardsOnly(t *testing.T) {
	for _, p := range packages(t) {
		from := module(p.ImportPath)
		for _, to := range ours(p.Imports) {
			m := module(to)
			if m == from {
				continue
			}
			ok := false
			switch {
			case from == "proto":
			case from == "sdk/scorer":
				ok = m == "proto"
			case from == "sdk/state":
				ok = m == "proto" || m == "sdk/scorer" || m == "internal/kit"
			case from == "conformance":
				ok = m == "proto"
			case from == "internal/kit":
				ok = m == "proto" || m == "sdk/scorer"
			case from == "disagg":
				ok = m == "internal/kit"
			case under(from, "services"), from == "sim":
				ok = m == "proto" || m == "internal/kit" || m == "sdk/scorer" || m == "disagg" && from != "sim"
			case from == "bench": // what it measures it runs as processes
				ok = m == "proto" || m == "internal/kit" || m == "sim"
			case from == "example.com": // a stranger has what is public
				ok = m == "proto" || m == "sdk/scorer" || m == "conformance"
			case from == "cmd/pointsman", from == "test":
				ok = m == "proto" || m == "internal/kit" || m == "sim" || m == "sdk/scorer" || m == "conformance" || under(m, "services") && strings.HasSuffix(to, "/app")
			}
			if !ok {
				t.Errorf("%s must not import %s", p.ImportPath, to)
			}
		}
	}
}

// The domain is plain: the standard library and the roster, which is plain too.
func TestDomainsArePlain(t *testing.T) {
	allowed := map[string][]string{
		"services/router/internal/route":     {root + "internal/kit/roster"},
		"services/router/internal/pick":      {root + "internal/kit/roster", root + "services/router/internal/route"},
		"services/router/internal/admission": {root + "internal/kit/roster", root + "services/router/internal/route"},
		"internal/kit/roster":                {"github.com/cespare/xxhash/v2"},
		"sdk/scorer/wire":                    {root + "proto/gen/go/pointsman/scorer/v1", "google.golang.org/grpc", "google.golang.org/protobuf"},
		"sdk/scorer":                         {root + "proto/gen/go/pointsman/scorer/v1", "google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto"},
		"sdk/scorer/simple":                  {root + "proto/gen/go/pointsman/scorer/v1", root + "sdk/scorer", "google.golang.org/grpc", "google.golang.org/protobuf"},
		"sim/engine":                         {root + "sim/engine", "github.com/cespare/xxhash/v2"},
	}
	seen := 0
	for _, p := range packages(t) {
		rule, ok := allowed[p.ImportPath]
		if !ok {
			continue
		}
		seen++
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !under(i, rule...) {
				t.Errorf("%s must not import %s", p.ImportPath, i)
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d of %d domain packages are there: keep this table true", seen, len(allowed))
	}
}

// Adapters of the router meet in app, not each other.
func TestAdaptersDoNotImportEachOther(t *testing.T) {
	const in = "services/router/internal/"
	domain := []string{in + "route", in + "decisions"}
	pairs := map[string]string{ // an adapter and the one it is made of
		in + "remote":          in + "fanout",
		in + "front/httpproxy": in + "prompt " + in + "usage " + in + "front/edge",
		in + "front/extproc":   in + "prompt " + in + "usage " + in + "front/edge " + in + "front/extproc/wire",
		in + "front/grpcapi":   in + "front/edge",
		in + "front/edge":      in + "prompt",
		in + "epconfig":        in + "filter " + in + "pick " + in + "profile " + in + "admission",
	}
	for _, p := range packages(t) {
		if !under(p.ImportPath, strings.TrimSuffix(in, "/")) || p.ImportPath == in+"route/routetest" {
			continue
		}
		for _, to := range ours(p.Imports) {
			if !under(to, strings.TrimSuffix(in, "/")) || under(to, domain...) || slices.Contains(strings.Fields(pairs[p.ImportPath]), to) {
				continue
			}
			t.Errorf("adapter %s must not import adapter %s: let app bring them together", p.ImportPath, to)
		}
	}
}

func TestMainsAreShort(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name != "main" || under(p.ImportPath, "example.com") { // a stranger's house is a stranger's
			continue
		}
		for _, i := range ours(p.Imports) {
			if !strings.HasSuffix(i, "/app") && !strings.HasSuffix(i, "kit/run") && !strings.HasSuffix(i, "/cli") && !under(i, "sim") {
				t.Errorf("main package %s imports %s: a main hands over to app", p.ImportPath, i)
			}
		}
	}
}
