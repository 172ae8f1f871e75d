package envoy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// proxy is a running Envoy.
type proxy struct {
	admin     string            // address
	listeners map[string]string // addresses by name
	log       string            // file
}

// binary is where test/setup has put Envoy.
func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".tools", "bin", "envoy"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run test/setup/ready.sh", err)
	}
	return path
}

// leash runs a command until its own standard input ends, which it does even if the test
// is killed: an Envoy that is left behind would go on to check the health of servers whose
// ports others have by then.
const leash = `exec 3<&0
"$0" "$@" </dev/null 3<&- & p=$!
(cat <&3 >/dev/null; kill -9 $p 2>/dev/null) & wait $p`

// start runs Envoy until the test ends.
func (b *bootstrap) start(t testing.TB) *proxy {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(b.doc)
	if err != nil {
		t.Fatal(err)
	}
	config, admin := filepath.Join(dir, "envoy.json"), filepath.Join(dir, "admin")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proxy{listeners: make(map[string]string), log: filepath.Join(dir, "log")}
	cmd := exec.Command("sh", "-c", leash, binary(t), "-c", config, "--concurrency", "1", "--log-level", "warn", "--log-path", p.log, "--disable-hot-restart", "--admin-address-path", admin)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = hold.Close()
		<-ended
		if t.Failed() {
			said, _ := os.ReadFile(p.log)
			t.Logf("Envoy wrote:\n%s", said)
		}
	})
	kittest.Eventually(t, "Envoy to be ready", func() bool {
		select {
		case err := <-ended:
			ended <- err
			said, _ := os.ReadFile(p.log)
			t.Fatalf("Envoy ended: %v\n%s", err, said)
		default:
		}
		if p.admin == "" {
			address, _ := os.ReadFile(admin)
			p.admin = strings.TrimSpace(string(address))
			return false
		}
		said, err := p.ask("/ready")
		return err == nil && strings.HasPrefix(said, "LIVE")
	})
	p.find(t)
	return p
}

// find asks which ports the listeners have got.
func (p *proxy) find(t testing.TB) {
	t.Helper()
	text, err := p.ask("/listeners?format=json")
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatal(err)
	}
	for _, l := range said.Statuses {
		p.listeners[l.Name] = net.JoinHostPort(l.Address.Socket.Address, strconv.Itoa(l.Address.Socket.Port))
	}
}

// ask returns a page of the admin interface.
func (p *proxy) ask(path string) (string, error) {
	resp, err := http.Get("http://" + p.admin + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// url returns where a listener takes requests.
func (p *proxy) url(listener string) string { return "http://" + p.listeners[listener] }

// stat returns a counter or gauge of Envoy's, 0 if there is none of that name.
func (p *proxy) stat(t testing.TB, name string) int {
	t.Helper()
	text, err := p.ask("/stats?filter=" + strings.ReplaceAll("^"+name+"$", ".", "%5C."))
	if err != nil {
		t.Fatal(err)
	}
	_, value, ok := strings.Cut(strings.TrimSpace(text), ": ")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("Envoy's %s: %v", name, err)
	}
	return n
}

// content asserts that Envoy has nothing to complain of: every message of the picker's
// was in its place and in time.
func (p *proxy) content(t testing.TB, listener string) {
	t.Helper()
	for _, fault := range []string{"streams_failed", "spurious_msgs_received", "message_timeouts", "failure_mode_allowed", "rejected_header_mutations", "stream_open_failures"} {
		if n := p.stat(t, fmt.Sprintf("http.%s.ext_proc.%s", listener, fault)); n != 0 {
			t.Errorf("Envoy counts %s = %d on %s", fault, n, listener)
		}
	}
	if n := p.stat(t, fmt.Sprintf("http.%s.ext_proc.streams_started", listener)); n == 0 {
		t.Errorf("Envoy has not asked the picker on %s", listener)
	}
}
