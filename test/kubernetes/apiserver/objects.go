package apiserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	adminToken = "admin-of-the-tests" //nolint:gosec // of a server that lives for a minute on loopback
	mergePatch = "application/merge-patch+json"
)

// Do sends a request as the server's admin and returns the answer's body. Any status
// but 2xx is an error.
func (s *Server) Do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %.500s", method, path, resp.StatusCode, text)
	}
	return text, err
}

func (s *Server) send(t testing.TB, method, path, contentType string, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := s.Do(ctx, method, path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Create makes an object, such as "/api/v1/namespaces/x/pods", from anything that JSON
// can say.
func (s *Server) Create(t testing.TB, path string, object any) []byte {
	t.Helper()
	return s.send(t, http.MethodPost, path, "application/json", object)
}

// Patch changes fields of an object or, with a path that ends in /status, its status.
func (s *Server) Patch(t testing.TB, path string, patch any) {
	t.Helper()
	s.send(t, http.MethodPatch, path, mergePatch, patch)
}

// Delete removes an object at once.
func (s *Server) Delete(t testing.TB, path string) {
	t.Helper()
	s.send(t, http.MethodDelete, path, "application/json", map[string]any{"gracePeriodSeconds": 0})
}

// Object is what tests say an object is.
type Object = map[string]any

// namespaces counts, so that each has a name of its own.
var namespaces atomic.Int64

// Namespace makes a namespace with labels and returns its name.
func (s *Server) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", namespaces.Add(1))
	s.Create(t, "/api/v1/namespaces", Object{"metadata": Object{"name": name, "labels": labels}})
	return name
}

// CRDs installs what is in a directory of custom resource definitions, each once, and
// waits until the server knows them.
func (s *Server) CRDs(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("custom resource definitions in %s: %d, %v", dir, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var o Object
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			s.define(t, o)
		}
	}
}

func (s *Server) define(t testing.TB, crd Object) {
	t.Helper()
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	name := crd["metadata"].(Object)["name"].(string)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	body, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(ctx, http.MethodPost, path, "application/json", body); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		t.Fatal(err)
	}
	spec := crd["spec"].(Object)
	version := spec["versions"].([]any)[0].(Object)["name"].(string)
	served := "/apis/" + spec["group"].(string) + "/" + version + "/" + spec["names"].(Object)["plural"].(string)
	for {
		_, err := s.Do(ctx, http.MethodGet, served, "", nil)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s is not served: %v", name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Kubeconfig writes a file that says how the server is reached at a URL by the owner of
// a token, and returns its path. The URL may be that of a proxy.
func (s *Server) Kubeconfig(t testing.TB, url, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, url, s.CAFile, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// AdminToken is the token of who may do everything.
func (s *Server) AdminToken() string { return adminToken }

// AdminConfig is a Kubeconfig with all rights.
func (s *Server) AdminConfig(t testing.TB) string { return s.Kubeconfig(t, s.URL, adminToken) }

// Token returns a token of a service account, as a pod would have it.
func (s *Server) Token(t testing.TB, namespace, account string) string {
	t.Helper()
	out := s.Create(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", Object{"spec": Object{"expirationSeconds": 3600}})
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.Status.Token == "" {
		t.Fatalf("token of %s: %v", account, err)
	}
	return answer.Status.Token
}

// writeKey makes the key that tokens of service accounts are signed with.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
