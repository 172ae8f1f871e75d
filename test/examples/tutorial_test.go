package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fenced are the commands of a page: what stands in its blocks of sh.
var fenced = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// decided is a line of the table of decisions: the endpoint, and what the scorers said.
var decided = regexp.MustCompile(`→ (127\.0\.0\.1:\d+) .*my-zone-scorer 1\.00×3 \+ queue-scorer`)

// clone makes "git clone" of the page's address give this tree: what is committed, and upon
// it what is not yet, so that what is tested is what is here.
func clone(t *testing.T, dir string) (env []string) {
	t.Helper()
	upstream := filepath.Join(dir, "upstream")
	command(t, ".", nil, "git", "clone", "--quiet", "--no-hardlinks", root(), upstream)
	for file := range strings.Lines(command(t, ".", nil, "git", "ls-files", "--modified", "--deleted", "--others", "--exclude-standard")) {
		file = strings.TrimSpace(file)
		to := filepath.Join(upstream, file)
		text, err := os.ReadFile(filepath.Join(root(), file))
		if errors.Is(err, os.ErrNotExist) {
			err = os.RemoveAll(to)
		} else if err == nil {
			if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
				err = os.WriteFile(to, text, 0o700)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	command(t, ".", nil, "git", "-C", upstream, "add", "--all")
	command(t, ".", nil, "git", "-C", upstream, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--allow-empty", "-m", "what is not committed yet")
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + upstream + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/pointsman/pointsman"}
}

// compileHere puts a "go" before the one on PATH that compiles this tree instead of its
// clone, whose files are the same: the compiler takes a minute for what it has in its cache
// of this directory. What a clone could lack is a package that git ignores, and so the
// clone's packages are looked up first.
func compileHere(t *testing.T, dir string) string {
	t.Helper()
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/usr/bin/env bash
set -euo pipefail
[ "$1" = build ] || exec %[1]q "$@"
args=() packages=()
for a in "$@"; do
  case $a in
    bin/) a=$PWD/bin/ ;;
    -X*) a="$a -s -w" ;; # no debugger comes, and the linker takes a third less
    ./*) packages+=("$a") ;;
  esac
  args+=("$a")
done
%[1]q list -deps "${packages[@]}" >/dev/null
cd %[2]q
exec %[1]q "${args[@]}"
`, compiler, root())
	bin := filepath.Join(dir, "shims")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return bin
}

// The tutorial is run as it is written, in a directory with nothing else in it, but for three
// things: what is cloned is this tree, what is compiled too, and ports are free ones. It ends
// with a scorer in TypeScript that decides requests, in fewer than 10 commands.
func TestTutorial(t *testing.T) {
	page := readFile(t, filepath.Join(root(), "docs", "write-a-scorer.md"))
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	env := clone(t, dir)
	http := free(t)
	ports := strings.NewReplacer(
		"127.0.0.1:9200", free(t),
		"http://127.0.0.1:8080", "http://"+http,
		`run ARGS="`, fmt.Sprintf(`run ARGS="--http %s --grpc %s --admin %s `, http, free(t), free(t)),
	)
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	blocks := fenced.FindAllStringSubmatch(page, -1)
	if len(blocks) == 0 || len(blocks) >= 10 {
		t.Errorf("the page has %d commands, want fewer than 10", len(blocks))
	}
	for _, b := range blocks {
		script.WriteString(ports.Replace(b[1]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = work
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "PATH="+compileHere(t, dir)+":"+os.Getenv("PATH"), "npm_config_cache="+filepath.Join(root(), ".tools", "npm"), "npm_config_prefer_offline=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it leaves running ends with the test
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("end the tutorial's processes: %v", err)
		}
	})
	err := cmd.Wait()
	said := out.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if !strings.Contains(said, "√ it conforms") {
		t.Errorf("the scorer does not conform:\n%s", said)
	}
	found := decided.FindAllStringSubmatch(said, -1)
	if len(found) != 2 || found[0][1] == found[1][1] {
		t.Errorf("the decisions table does not show it deciding for two zones:\n%s", said)
	}
}
