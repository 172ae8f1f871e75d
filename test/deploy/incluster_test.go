package deploy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

// rig is a variant of the manifests that runs without nodes: each process as its
// container says, with names of Services replaced by addresses on loopback.
type rig struct {
	node
	api    *apiserver.Server
	nats   string
	redis  string
	addr   map[string]string // of scorers
	secure bool
}

func (r *rig) start(service string, listeners int, more ...string) *cluster.Process {
	r.t.Helper()
	args := append(r.arguments(service), more...)
	nats := "nats://" + r.nats
	if r.secure {
		nats = "tls://" + r.nats
		args = append(args, "--set=nats.tls.serverName=nats")
	}
	p := cluster.NewProcess(r.t, service, cluster.Binary(r.t, service), listeners, append(args, "--set=nats.url="+nats)...)
	p.Start(r.t)
	return p
}

// engines are model servers on one port of several addresses, and their pods.
func (r *rig) engines(n int) {
	r.t.Helper()
	port := kittest.FreePort(r.t)
	r.api.Create(r.t, "/apis/inference.networking.k8s.io/v1/namespaces/"+namespace+"/inferencepools", apiserver.Object{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": apiserver.Object{"name": "vllm"},
		"spec": apiserver.Object{"selector": apiserver.Object{"matchLabels": apiserver.Object{"app": "vllm"}}, "targetPorts": []apiserver.Object{{"number": port}}},
	})
	r.t.Cleanup(func() {
		r.api.Delete(r.t, "/apis/inference.networking.k8s.io/v1/namespaces/"+namespace+"/inferencepools/vllm")
	})
	for i := range n {
		ip := fmt.Sprintf("127.0.7.%d", i+1)
		cfg := modelserver.DefaultConfig()
		cfg.Address, cfg.TimeScale = fmt.Sprintf("%s:%d", ip, port), 20
		s, err := modelserver.New(cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = s.Kill() })
		r.pod(fmt.Sprintf("vllm-%d", i), ip)
	}
}

func (r *rig) pod(name, ip string) {
	r.t.Helper()
	const pods = "/api/v1/namespaces/" + namespace + "/pods"
	no := false
	r.api.Create(r.t, pods, apiserver.Object{"metadata": apiserver.Object{"name": name, "labels": apiserver.Object{"app": "vllm"}}, "spec": apiserver.Object{
		"securityContext": apiserver.Object{"runAsNonRoot": true, "seccompProfile": apiserver.Object{"type": "RuntimeDefault"}},
		"containers": []apiserver.Object{{"name": "engine", "image": "engine", "securityContext": apiserver.Object{
			"allowPrivilegeEscalation": no, "capabilities": apiserver.Object{"drop": []string{"ALL"}},
		}}},
	}})
	r.api.Patch(r.t, pods+"/"+name+"/status", apiserver.Object{"status": apiserver.Object{
		"phase": "Running", "podIP": ip, "podIPs": []apiserver.Object{{"ip": ip}}, "conditions": []apiserver.Object{{"type": "Ready", "status": "True"}},
	}})
	r.t.Cleanup(func() { r.api.Delete(r.t, pods+"/"+name) })
}

// rights applies the variant's account and roles, and returns a kubeconfig of the
// collector's own.
func (r *rig) rights(variant string) string {
	r.t.Helper()
	var parts []string
	for _, part := range strings.Split(string(text(r.t, variant)), "\n---\n") {
		for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
			if strings.Contains("\n"+part, "\nkind: "+kind+"\n") {
				parts = append(parts, part)
			}
		}
	}
	if len(parts) != 3 {
		r.t.Fatalf("%d objects about rights, want an account, a role and a binding", len(parts))
	}
	objects := []byte(strings.Join(parts, "\n---\n"))
	if out, err := r.api.Kubectl(r.t, objects, "apply", "-f", "-"); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	r.t.Cleanup(func() {
		if out, err := r.api.Kubectl(r.t, objects, "delete", "-f", "-"); err != nil {
			r.t.Errorf("%v\n%s", err, out)
		}
	})
	return r.api.Kubeconfig(r.t, r.api.URL, r.api.Token(r.t, namespace, "metrics-collector"))
}

// ask sends a request to the router's HTTP front until it is answered well.
func ask(t *testing.T, client *http.Client, url string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %.500s", last)
		}
	}()
	kittest.Eventually(t, "a request is answered", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"sim-model","max_tokens":4,"messages":[{"role":"user","content":"`+strings.Repeat("All along the line. ", 100)+`"}]}`)) // longer than a block of a prefix
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			last = err.Error()
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		last = fmt.Sprintf("%d %s %v", resp.StatusCode, body, err)
		return resp.StatusCode == http.StatusOK && resp.Header.Get("x-pointsman-endpoint") != ""
	})
}

func awaitReady(t *testing.T, processes ...*cluster.Process) {
	t.Helper()
	for _, p := range processes {
		last := ""
		defer func() {
			if t.Failed() {
				t.Log(last)
			}
		}()
		kittest.Eventually(t, "a service is ready", func() bool {
			code, text := get(t, p.Addr("admin")+"/readyz")
			last = text
			return code == http.StatusOK
		})
	}
}

// scorersAnswer sends requests until every scorer has given a score in time.
func scorersAnswer(t *testing.T, client *http.Client, url string, router *cluster.Process) {
	t.Helper()
	last := ""
	defer func() {
		if !t.Failed() {
			return
		}
		for line := range strings.Lines(last) {
			if strings.HasPrefix(line, "pointsman_router_scorer_calls_total{") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}()
	kittest.Eventually(t, "every scorer has given a score", func() bool {
		ask(t, client, url)
		_, last = get(t, router.Addr("admin")+"/metrics")
		for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
			found := false
			for line := range strings.Lines(last) {
				found = found || strings.HasPrefix(line, "pointsman_router_scorer_calls_total{") && strings.Contains(line, `"`+name+`"`) && strings.Contains(line, `verdict="scored"`) && !strings.HasSuffix(strings.TrimSpace(line), " 0")
			}
			if !found {
				return false
			}
		}
		return true
	})
}

// TestSidecarsServe runs the overlay with Unix sockets.
func TestSidecarsServe(t *testing.T) {
	const variant = "overlays/sidecar"
	nats := kittest.StartNATS(t, 0)
	r := &rig{node: node{t, render(t, variant), make(map[string]string)}, api: control(t), nats: strings.TrimPrefix(nats.URL, "nats://"), redis: kittest.Redis(t)}
	r.engines(3)
	kubeconfig := r.rights(variant)
	processes := []*cluster.Process{r.start("metrics-collector", 1, "--kubeconfig="+kubeconfig, "--poolNamespace="+namespace, "--pool=vllm")}
	for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
		processes = append(processes, r.start(name, 2))
	}
	router := r.start("router", 4, "--set=redis.address="+r.redis)
	awaitReady(t, append(processes, router)...)
	scorersAnswer(t, http.DefaultClient, "http://"+router.Addr("http"), router)
	router.Stop(t)
}

// TestMutualTLSServes runs the overlay with certificates that are made as its
// Certificates say, and what those who have others come to.
func TestMutualTLSServes(t *testing.T) {
	const variant = "overlays/mtls"
	o := render(t, variant)
	ca := newAuthority(t)
	secrets := make(map[string]string)
	for _, m := range o {
		if m.Kind == "Certificate" && !m.Spec.IsCA {
			secrets[m.Spec.SecretName] = ca.issue(t, m.Spec.DNSNames, m.Spec.URIs)
		}
	}
	r := &rig{node: node{t, o, secrets}, api: control(t), addr: make(map[string]string), secure: true}
	r.nats = r.startNATS()
	r.redis = r.startRedis()
	r.engines(3)
	kubeconfig := r.rights(variant)
	processes := []*cluster.Process{r.start("metrics-collector", 1, "--kubeconfig="+kubeconfig, "--poolNamespace="+namespace, "--pool=vllm")}
	var targets []string
	for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
		p := r.start(name, 2)
		processes = append(processes, p)
		r.addr[name] = p.Addr("grpc")
		targets = append(targets, name+"="+p.Addr("grpc"))
	}
	router := r.start("router", 4, "--set=redis.address="+r.redis, "--set=redis.tls.serverName=redis", r.routerScorers(targets))
	awaitReady(t, append(processes, router)...)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool, ServerName: "router", MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	scorersAnswer(t, client, "https://"+router.Addr("http"), router)

	// A scorer talks to routers alone, and NATS to those with a certificate.
	for who, ok := range map[string]bool{"router": true, "scorer-queue": false, "": false} {
		if err := r.call("scorer-kv", who); (err == nil) != ok {
			t.Errorf("a call of scorer-kv by %q comes to %v, want it to be let in: %v", who, err, ok)
		}
	}
	if err := anonymous(r.nats, ca, "nats"); err == nil {
		t.Error("NATS talks to somebody without a certificate")
	}
	r.saysOnlyItsOwn(processes)
	r.others(ca)
	if err := anonymous(r.redis, ca, "redis"); err == nil {
		t.Error("Redis talks to somebody without a certificate")
	}
	router.Stop(t)
}

// routerScorers is the router's settings of scorers, with targets on loopback and the
// names of the Services that they stand for.
func (r *rig) routerScorers(targets []string) string {
	dir := r.secrets["router-tls"]
	var list []string
	for _, t := range targets {
		name, addr, _ := strings.Cut(t, "=")
		settings := r.objects["ConfigMap/pointsman-tls"].Data["router.yaml"]
		if !strings.Contains(settings, "- name: "+name+"\n") || !strings.Contains(settings, `peerNames: ["spiffe://pointsman/sa/`+name+`"]`) {
			r.t.Errorf("the router's settings do not say who %s may be", name)
		}
		list = append(list, fmt.Sprintf(`{name: %s, target: %q, tls: {certFile: %s/tls.crt, keyFile: %[3]s/tls.key, caFile: %[3]s/ca.crt, serverName: %[1]s, peerNames: ["spiffe://pointsman/sa/%[1]s"]}}`, name, addr, dir))
	}
	return "--set=scorers=[" + strings.Join(list, ", ") + "]"
}

// startNATS runs a server with the file that the manifests give it, alone.
func (r *rig) startNATS() string {
	r.t.Helper()
	pod, c, _ := r.objects.container("nats")
	paths := r.mount(pod, c)
	path := paths.Replace(c.Args[1])
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		r.t.Fatalf("nats.conf: %v", err)
	}
	if opts.Cluster.Port != 6222 || len(opts.Routes) != 3 || opts.MaxPayload != 8<<20 || opts.Cluster.TLSConfig == nil || opts.TLSConfig == nil || opts.TLSConfig.ClientAuth != tls.RequireAndVerifyClientCert {
		r.t.Fatalf("nats.conf: cluster port %d, %d routes, largest message %d, or no certificates asked for", opts.Cluster.Port, len(opts.Routes), opts.MaxPayload)
	}
	h := kittest.StartNATS(r.t, 0, func(o *server.Options) {
		o.TLS, o.TLSConfig, o.MaxPayload = true, opts.TLSConfig, opts.MaxPayload
		o.TLSVerify, o.TLSMap, o.Users = opts.TLSVerify, opts.TLSMap, opts.Users
	})
	return strings.TrimPrefix(h.URL, "nats://")
}

// startRedis runs redis-server with the arguments that Valkey is given.
func (r *rig) startRedis() string {
	r.t.Helper()
	pod, c, _ := r.objects.container("redis")
	paths := r.mount(pod, c)
	port := kittest.FreePort(r.t)
	args := slices.Clone(c.Args)
	for i := range args {
		args[i] = paths.Replace(args[i])
		if args[i] == "6379" {
			args[i] = fmt.Sprint(port)
		}
	}
	startServer(r.t, "redis-server", append(args, "--bind", "127.0.0.1", "--dir", r.t.TempDir())...)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	kittest.Eventually(r.t, "redis-server listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address
}

// call asks a scorer for its health with the certificate of somebody.
func (r *rig) call(scorer, who string) error {
	cfg := rpc.DefaultClientConfig()
	cfg.TLS = rpc.TLSConfig{CAFile: filepath.Join(r.secrets["router-tls"], "ca.crt"), ServerName: scorer}
	if dir := r.secrets[who+"-tls"]; who != "" {
		cfg.TLS.CertFile, cfg.TLS.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	}
	conn, err := rpc.Dial(r.addr[scorer], cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}

// anonymous says why a server does not talk to a client without certificate.
func anonymous(address string, ca *authority, name string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if name == "nats" { // it says who it is in plain text before
		if _, err := conn.Read(make([]byte, 64<<10)); err != nil {
			return fmt.Errorf("its greeting: %w", err)
		}
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: ca.pool, ServerName: name, MinVersion: tls.VersionTLS12})
	if err := secure.Handshake(); err != nil {
		return err
	}
	if _, err := secure.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_, err = secure.Read(make([]byte, 1))
	return err
}

// authority stands for cert-manager's.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pointsman"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// issue makes a Secret's directory, as cert-manager fills it.
func (a *authority) issue(t *testing.T, names, uris []string) (dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, content := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), "ca.crt": bytes.Clone(a.pem),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
