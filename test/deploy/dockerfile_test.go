package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's directory.
var root = filepath.Join("..", "..")

// instruction is one line of a Dockerfile.
type instruction struct{ name, args string }

// stage is a Dockerfile from one FROM to the next.
type stage struct {
	from  string
	steps []instruction
}

// all returns the arguments of all instructions of a name.
func (s stage) all(name string) []string {
	var args []string
	for _, i := range s.steps {
		if i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

// parseDockerfile reads the stages of a Dockerfile. Comments are left out, continued
// lines are joined.
func parseDockerfile(text string) ([]stage, error) {
	var stages []stage
	pending := ""
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if head, more := strings.CutSuffix(line, `\`); more {
			pending += head
			continue
		}
		name, args, ok := strings.Cut(pending+line, " ")
		pending = ""
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d: %s has no arguments", n+1, name)
		case name == "FROM":
			stages = append(stages, stage{from: args})
		case len(stages) == 0:
			return nil, fmt.Errorf("line %d: %s before FROM", n+1, name)
		default:
			s := &stages[len(stages)-1]
			s.steps = append(s.steps, instruction{name, strings.TrimSpace(args)})
		}
	}
	if pending != "" {
		return nil, fmt.Errorf("the last line is continued")
	}
	return stages, nil
}

// services lists the services, by their directories.
func services(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join(root, "services", "*", "main.go"))
	if err != nil || len(mains) != 6 {
		t.Fatalf("services: %v, %v; want 6", mains, err)
	}
	var names []string
	for _, m := range mains {
		names = append(names, filepath.Base(filepath.Dir(m)))
	}
	return names
}

// deployed lists the services that have a Deployment: all but the sidecar of model servers.
func deployed(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(services(t), func(s string) bool { return s == "disagg-sidecar" })
}

// dockerfile returns the text and the two stages of a service's Dockerfile.
func dockerfile(t *testing.T, service string) (text string, build, final stage) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "services", service, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := parseDockerfile(string(raw))
	if err != nil || len(stages) != 2 {
		t.Fatalf("%s: %d stages, %v; want 2", service, len(stages), err)
	}
	return string(raw), stages[0], stages[1]
}

func TestDockerfilesHaveOneShape(t *testing.T) {
	// What may differ: the ports, the description, settings of the environment, and what
	// carries out prefill and decode, which two have.
	own := regexp.MustCompile(`(?m)^COPY disagg/.*\n|^EXPOSE .*$|image\.description="[^"]*"|(# .*\n)*ENV GOGC=.*\n`)
	first := ""
	for _, service := range services(t) {
		text, _, _ := dockerfile(t, service)
		shape := own.ReplaceAllString(strings.ReplaceAll(text, service, "SERVICE"), "")
		if first == "" {
			first = shape
		}
		if shape != first {
			t.Errorf("the Dockerfile of %s is of another shape than those before:\n%s", service, shape)
		}
	}
}

func TestImages(t *testing.T) {
	for _, service := range services(t) {
		_, _, final := dockerfile(t, service)
		if final.from != "scratch" {
			t.Errorf("%s: the image is made from %s", service, final.from)
		}
		for name, want := range map[string][]string{
			"USER":       {"65532:65532"},
			"ENTRYPOINT": {`["/` + service + `"]`},
			"COPY":       {"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/", "--from=build /out/" + service + " /" + service},
		} {
			if got := final.all(name); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: %s %q, want %q", service, name, got, want)
			}
		}
		labels := strings.Join(final.all("LABEL"), " ")
		for _, want := range []string{`image.title="pointsman ` + service + `"`, `image.description="`, `image.licenses="Apache-2.0"`, `image.version="${VERSION}"`} {
			if !strings.Contains(labels, "org.opencontainers."+want) {
				t.Errorf("%s: the labels lack %s", service, want)
			}
		}
	}
}
