package examples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
)

// Each example passes its own tests, as its README says.
func TestExamplesTestThemselves(t *testing.T) {
	t.Run("scorer-typescript", func(t *testing.T) { command(t, "examples/scorer-typescript", nil, "npm", "test", "--silent") })
	t.Run("scorer-python", func(t *testing.T) {
		command(t, "examples/scorer-python", nil, filepath.Join(root(), ".tools", "venv-scorer-python", "bin", "python"), "-m", "unittest", "-q")
	})
	t.Run("scorer-go", func(t *testing.T) {
		// As elsewhere than in our workspace.
		command(t, "examples/scorer-go", []string{"GOWORK=off"}, "go", "test", "-vet=off", "./...")
	})
}

// report is what `scorer verify -o json` prints.
type report struct {
	Conforms bool `json:"conforms"`
	Results  []struct {
		Check, Outcome, Reason string
	} `json:"results"`
}

// Each example keeps every MUST and every SHOULD, over TCP and over a Unix socket, as
// the command line finds.
func TestExamplesConform(t *testing.T) {
	for _, e := range all() {
		for _, address := range []string{"127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), e.typ)} {
			t.Run(e.name+" "+address, func(t *testing.T) {
				p := e.process(t, address)
				p.Start(t)
				args := []string{"scorer", "verify", p.Addr("grpc"), "--type", e.typ, "-o", "json"}
				if e.labels != "" {
					args = append(args, "--label", e.labels)
				}
				var r report
				if err := json.Unmarshal([]byte(command(t, ".", nil, cluster.PlainBinary(t, "pointsman"), args...)), &r); err != nil {
					t.Fatal(err)
				}
				if !r.Conforms || len(r.Results) < 40 {
					t.Errorf("conforms %t, %d checks", r.Conforms, len(r.Results))
				}
				for _, res := range r.Results {
					// The machine may be slow.
					if res.Outcome == "warned" && res.Check != "score-time" {
						t.Errorf("%s: %s", res.Check, res.Reason)
					}
				}
			})
		}
	}
}

// The copies of the contract are the contract, and the Python code is made of it.
func TestContractIsCopiedTruly(t *testing.T) {
	const proto = "proto/pointsman/scorer/v1/scorer.proto"
	want, err := os.ReadFile(filepath.Join(root(), proto))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"scorer-typescript", "scorer-python"} {
		got, err := os.ReadFile(filepath.Join(root(), "examples", e, proto))
		if err != nil || string(got) != string(want) {
			t.Errorf("examples/%s/%s differs from %s (make generate copies it), error %v", e, proto, proto, err)
		}
	}
	made := t.TempDir()
	command(t, "examples/scorer-python", nil, filepath.Join(root(), ".tools", "venv-scorer-python", "bin", "python"),
		"-m", "grpc_tools.protoc", "-I", "proto", "--python_out="+made, "--grpc_python_out="+made, "pointsman/scorer/v1/scorer.proto")
	for _, name := range []string{"scorer_pb2.py", "scorer_pb2_grpc.py"} {
		file := filepath.Join("pointsman", "scorer", "v1", name)
		fresh, err := os.ReadFile(filepath.Join(made, file))
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join(root(), "examples", "scorer-python", "gen", file))
		if err != nil || string(fresh) != string(committed) {
			t.Errorf("examples/scorer-python/gen/%s is not up to date: make generate, error %v", file, err)
		}
	}
}

var address = regexp.MustCompile(`https?://[^/"]+`)

// What is installed comes from whichever registry the machine is set up for: no file
// names one.
func TestNoRegistryIsNamed(t *testing.T) {
	lock, err := os.ReadFile(filepath.Join(root(), "examples", "scorer-typescript", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Packages map[string]struct {
			Resolved, Integrity string
		} `json:"packages"`
	}
	if err := json.Unmarshal(lock, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 10 {
		t.Fatalf("%d packages are locked", len(m.Packages))
	}
	for name, p := range m.Packages {
		if p.Resolved != "" || name != "" && p.Integrity == "" {
			t.Errorf("%s is resolved to %q, with integrity %q", name, p.Resolved, p.Integrity)
		}
	}
	for _, file := range []string{"scorer-typescript/.npmrc", "scorer-python/requirements.txt", "scorer-python/requirements-dev.txt"} {
		text, err := os.ReadFile(filepath.Join(root(), "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if found := address.FindString(string(text)); found != "" {
			t.Errorf("examples/%s names %s", file, found)
		}
		if strings.HasSuffix(file, ".txt") && regexp.MustCompile(`(?m)^[a-z][^=\n]*$`).Match(text) {
			t.Errorf("examples/%s has something without a version", file)
		}
	}
}
