package deploy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

const apart = "overlays/disaggregation"

// What routers read there is a configuration, with nothing to be warned of.
func TestPickerOfDisaggregation(t *testing.T) {
	t.Parallel()
	o := render(t, apart)
	pod, c, _ := o.container("router")
	path := node{t, o, make(map[string]string)}.mount(pod, c)
	file := ""
	for _, a := range c.Args {
		if f, ok := strings.CutPrefix(a, "--configFile="); ok {
			file = path.Replace(f)
		}
	}
	out, err := exec.Command(cluster.Binary(t, "pointsman"), "config", "check", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ", 0 warnings") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "disagg-profile-handler") {
		t.Errorf("%s: %v\n%s", filepath.Base(file), err, text)
	}
}

// The sidecar starts with the arguments that its container has, and its ports are those
// of its image.
func TestSidecarStartsAsDeployed(t *testing.T) {
	t.Parallel()
	o := render(t, apart)
	_, c, ok := o.container("disagg-sidecar")
	if !ok {
		t.Fatal("nothing runs disagg-sidecar")
	}
	checkService(t, "disagg-sidecar", c)
	if c := o["Deployment/decode"].Spec.Template; c.Metadata.Labels["llm-d.ai/role"] != "decode" || o["Deployment/prefill"].Spec.Template.Metadata.Labels["llm-d.ai/role"] != "prefill" {
		t.Error("the pods have no roles")
	}
	args := append(o.expand(t, c), fmt.Sprintf("--set=nats.url=nats://127.0.0.1:%d", kittest.FreePort(t)), "--set=listen.address=127.0.0.1:0", "--set=admin.address=127.0.0.1:0")
	p := cluster.NewProcess(t, "disagg-sidecar", cluster.Binary(t, "disagg-sidecar"), 2, args...)
	p.Start(t)
	if code, text := get(t, p.Addr("admin")+c.LivenessProbe.HTTPGet.Path); code != http.StatusOK {
		t.Errorf("not alive: %d %s", code, text)
	}
	if code, text := get(t, p.Addr("admin")+c.ReadinessProbe.HTTPGet.Path); code != http.StatusServiceUnavailable {
		t.Errorf("ready before it has heard whom it may call: %d %s", code, text)
	}
	if code, text := get(t, p.Addr("http")+"/health"); code != http.StatusOK {
		t.Errorf("/health: %d %s", code, text)
	}
}

// With certificates the sidecar has one that NATS knows, made as its Certificate says: it
// hears tables, and from then on whom it may call, and neither hears nor says anything else.
func TestSidecarsCertificate(t *testing.T) {
	o := render(t, "overlays/disaggregation-mtls")
	ca := newAuthority(t)
	secrets := make(map[string]string)
	for _, m := range o {
		if m.Kind == "Certificate" && !m.Spec.IsCA {
			secrets[m.Spec.SecretName] = ca.issue(t, m.Spec.DNSNames, m.Spec.URIs)
		}
	}
	r := &rig{node: node{t, o, secrets}, secure: true}
	r.nats = r.startNATS()
	pod, c, ok := o.container("disagg-sidecar")
	if !ok {
		t.Fatal("nothing runs disagg-sidecar")
	}
	paths := r.mount(pod, c)
	args := o.expand(t, c)
	for i := range args {
		args[i] = paths.Replace(args[i])
	}
	tls := []string{"--set=nats.url=tls://" + r.nats, "--set=nats.tls.serverName=nats", "--set=admin.address=127.0.0.1:0"}
	sidecar := cluster.NewProcess(t, "disagg-sidecar", cluster.Binary(t, "disagg-sidecar"), 2, append(append(args, tls...), "--set=listen.address=127.0.0.1:0")...)
	sidecar.Start(t)

	dir := secrets["metrics-collector-tls"]
	collector := cluster.NewProcess(t, "metrics-collector", cluster.Binary(t, "metrics-collector"), 1, append(tls,
		"--set=nats.tls.certFile="+dir+"/tls.crt", "--set=nats.tls.keyFile="+dir+"/tls.key", "--set=nats.tls.caFile="+dir+"/ca.crt",
		"--set=pool="+o["ConfigMap/pointsman"].Data["pool"], fmt.Sprintf("--set=endpoints=[{address: 127.0.0.1, port: %d}]", kittest.FreePort(t)))...)
	collector.Start(t)
	awaitReady(t, sidecar)
	if n := sidecar.Metric(t, "pointsman_bus_errors_total", ""); n != 0 {
		t.Errorf("%v faults of the bus:\n%s", n, sidecar.Log())
	}
	for _, c := range []struct {
		say, hear bus.Subject
		let       bool
	}{{hear: bus.Table, let: true}, {hear: bus.Load}, {hear: bus.Outcome}, {hear: bus.Prefix}, {hear: bus.Policy}, {say: bus.Table}, {say: bus.Outcome}} {
		if err := r.speak("disagg-sidecar", c.say, c.hear); (err == nil) != c.let {
			t.Errorf("it says %q or hears %q: let is %v, want %v: %v", c.say, c.hear, err == nil, c.let, err)
		}
	}
	sidecar.Stop(t)
}

// Sidecars, and no other model servers, are heard by NATS.
func TestSidecarsReachNATS(t *testing.T) {
	o := render(t, apart)
	all := o.workloads()
	for _, c := range []struct {
		from string
		want bool
	}{{"decode", true}, {"prefill", false}} {
		if got := o.allows("Ingress", all["nats"], all[c.from], 4222); got != c.want {
			t.Errorf("from %s to NATS: open is %v, want %v", c.from, got, c.want)
		}
	}
}
