package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// patience is how long a server may take to start: seconds, on a machine that has
// nothing else to do.
const patience = 90 * time.Second

// Server is a running API server.
type Server struct {
	// URL is where it is, with https.
	URL string
	// CAFile is the certificate that it is known by.
	CAFile string

	dir    string
	client *http.Client
	procs  []*process
}

// process is etcd or the API server.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

// shared is the server of all tests of a binary.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Get returns the API server of this test binary, which the first call starts. Tests
// share it, so each takes namespaces of its own: see [Server.Namespace].
func Get(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = start(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Stop ends the API server, if one was started; call it at the end of TestMain.
func Stop() {
	if s := shared.server; s != nil {
		s.stop()
	}
}

func (s *Server) stop() {
	s.client.CloseIdleConnections()
	for i := len(s.procs) - 1; i >= 0; i-- {
		p := s.procs[i]
		_ = p.cmd.Process.Kill() // nothing of it is needed any more
		<-p.ended
		_ = p.log.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// root returns the repository's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// tool returns a program that test/setup/kubernetes.sh has built.
func tool(name string) (string, error) {
	path := filepath.Join(root(), ".tools", "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not there: run test/setup/kubernetes.sh, as make test does: %w", name, err)
	}
	return path, nil
}

func start(t testing.TB) (*Server, error) {
	dir, err := os.MkdirTemp("", "pointsman-apiserver-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, CAFile: filepath.Join(dir, "apiserver.crt")}
	if err := s.begin(t); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log"))
		s.client = &http.Client{}
		s.stop()
		return nil, fmt.Errorf("start the API server: %w\n%s", err, log[max(0, len(log)-4000):])
	}
	return s, nil
}

func (s *Server) begin(t testing.TB) error {
	store, peer, secure := kittest.FreePort(t), kittest.FreePort(t), kittest.FreePort(t)
	at := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	err := s.run("etcd", "--data-dir", filepath.Join(s.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", at(store), "--advertise-client-urls", at(store), "--listen-peer-urls", at(peer), "--initial-advertise-peer-urls", at(peer), "--initial-cluster", "default="+at(peer))
	if err != nil {
		return err
	}
	tokens := filepath.Join(s.dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	key := filepath.Join(s.dir, "account.key")
	if err := writeKey(key); err != nil {
		return err
	}
	err = s.run("kube-apiserver", "--etcd-servers", at(store), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", secure), "--cert-dir", s.dir,
		"--token-auth-file", tokens, "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file", key, "--service-account-key-file", key,
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none", "--enable-priority-and-fairness=false", "--profiling=false",
		// So that it is Pod Security that says no.
		"--allow-privileged=true")
	if err != nil {
		return err
	}
	s.URL = fmt.Sprintf("https://127.0.0.1:%d", secure)
	return s.await()
}

func (s *Server) run(name string, args ...string) error {
	path, err := tool(name)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := cmd.Start(); err != nil {
		_ = log.Close()
		return err
	}
	p := &process{cmd, log, make(chan struct{})}
	s.procs = append(s.procs, p)
	go func() {
		_ = cmd.Wait() // it is killed at the end
		close(p.ended)
	}()
	return nil
}

// await waits until the server is ready and its admin has all rights.
func (s *Server) await() error {
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, p := range s.procs {
			select {
			case <-p.ended:
				return fmt.Errorf("%s has ended", p.cmd.Path)
			default:
			}
		}
		if s.client == nil {
			ca, err := os.ReadFile(s.CAFile)
			pool := x509.NewCertPool()
			if err != nil || !pool.AppendCertsFromPEM(ca) {
				last = errors.Join(errors.New("no certificate yet"), err)
				continue
			}
			s.client = &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 32,
				DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			}}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, last = s.Do(ctx, http.MethodGet, "/readyz", "", nil)
		cancel()
		if last == nil {
			return nil
		}
	}
	return fmt.Errorf("it is not ready after %s: %w", patience, last)
}

// Kubectl runs kubectl as the server's admin and returns what it says on both outputs.
func (s *Server) Kubectl(t testing.TB, stdin []byte, args ...string) (string, error) {
	t.Helper()
	path, err := tool("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--kubeconfig", s.Kubeconfig(t, s.URL, adminToken)}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Kustomize returns what kubectl makes of a directory with a kustomization. It needs no
// server.
func Kustomize(t testing.TB, dir string) []byte {
	t.Helper()
	path, err := tool("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "kustomize", dir)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil || faults.Len() > 0 {
		t.Fatalf("kustomize %s: %v\n%s", dir, err, faults.String())
	}
	return out
}
