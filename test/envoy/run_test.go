package envoy

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

// TestRun is what make run-envoy does: a newcomer sends a request through Envoy, sees who
// was picked, and Ctrl-C leaves nothing behind.
func TestRun(t *testing.T) {
	listen, admin, picker := kittest.FreePort(t), kittest.FreePort(t), kittest.FreePort(t)
	cmd := exec.Command(filepath.Join("..", "..", "deploy", "envoy", "run.sh"), "--servers", "2", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--speed", "20")
	cmd.Env = append(os.Environ(), "ENVOY="+binary(t), "POINTSMAN="+cluster.Binary(t, "pointsman"),
		fmt.Sprintf("LISTEN_PORT=%d", listen), fmt.Sprintf("ADMIN_PORT=%d", admin), fmt.Sprintf("EXT_PROC_PORT=%d", picker))
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("it wrote:\n%s", said(path))
		}
	})
	for _, what := range []string{fmt.Sprintf("Envoy is up: OpenAI API http://127.0.0.1:%d/v1", listen), "Decisions, as they happen:"} {
		kittest.Eventually(t, what, func() bool { return strings.Contains(said(path), what) })
	}
	resp, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d%s", listen, chatPath), "application/json", bytes.NewReader(chat(300)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Server") != "envoy" {
		t.Errorf("status %d from %q", resp.StatusCode, resp.Header.Get("Server"))
	}
	kittest.Eventually(t, "the decision to be shown", func() bool { return strings.Contains(said(path), "→ 127.0.0.1:") })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	kittest.Eventually(t, "nothing of it to go on running", func() bool { return syscall.Kill(-cmd.Process.Pid, 0) != nil })
}

func said(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
