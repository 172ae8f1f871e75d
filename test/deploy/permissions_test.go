package deploy

import (
	"crypto/tls"
	"errors"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/test/cluster"
)

// saysOnlyItsOwn holds NATS against who may say and hear what: nobody is kept from what
// its work needs, and nobody may speak for another.
func (r *rig) saysOnlyItsOwn(processes []*cluster.Process) {
	r.t.Helper()
	for _, p := range processes {
		if n := p.Metric(r.t, "pointsman_bus_errors_total", ""); n != 0 {
			r.t.Errorf("%v faults of the bus at %s:\n%s", n, p.Addr("admin"), p.Log())
		}
	}
	for _, c := range []struct {
		who  string
		say  bus.Subject // else to hear it
		hear bus.Subject
		let  bool
	}{
		{who: "metrics-collector", say: bus.Table, let: true},
		{who: "metrics-collector", say: bus.Outcome},
		{who: "metrics-collector", hear: bus.Prefix},
		{who: "router", say: bus.Outcome, let: true},
		{who: "router", say: bus.Table},
		{who: "router", say: bus.Load},
		{who: "router", say: bus.Policy},
		{who: "router", hear: bus.Prefix},
		{who: "scorer-queue", hear: bus.Outcome, let: true},
		{who: "scorer-queue", say: bus.Outcome},
		{who: "scorer-queue", say: bus.Table},
		{who: "scorer-kv", say: bus.Prefix},
		{who: "scorer-kv", hear: bus.Prefix},
		{who: "prefix-indexer", hear: bus.Prefix, let: true},
		{who: "prefix-indexer", say: bus.Prefix},
		{who: "prefix-indexer", say: bus.Collector},
	} {
		if err := r.speak(c.who, c.say, c.hear); (err == nil) != c.let {
			r.t.Errorf("%s says %q or hears %q: let is %v, want %v: %v", c.who, c.say, c.hear, err == nil, c.let, err)
		}
	}
}

// speak connects with somebody's certificate and says, or listens to, something.
func (r *rig) speak(who string, say, hear bus.Subject) error {
	dir := r.secrets[who+"-tls"]
	denied := make(chan error, 8)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := nats.Connect("tls://"+r.nats, nats.RootCAs(filepath.Join(dir, "ca.crt")), nats.Secure(&tls.Config{ServerName: "nats", Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		return err
	}
	defer conn.Close()
	const pool = "pointsman.v1.another-pool."
	if say != "" {
		err = conn.Publish(pool+string(say), nil)
	} else {
		_, err = conn.SubscribeSync(pool + string(hear))
	}
	if err == nil {
		// A refusal comes before the answer to this.
		err = conn.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		return err
	}
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			r.t.Errorf("%s: %v", who, err)
		}
		return err
	case <-time.After(200 * time.Millisecond): // errors are told by another goroutine
		return nil
	}
}

// others are let in with certificates of our authority only if NATS knows them.
func (r *rig) others(ca *authority) {
	r.t.Helper()
	for _, who := range []string{"stranger", "disagg-sidecar"} {
		r.secrets[who+"-tls"] = ca.issue(r.t, []string{who}, []string{"spiffe://pointsman/sa/" + who})
	}
	if err := r.speak("stranger", "", bus.Table); err == nil {
		r.t.Error("NATS talks to one whom it does not know")
	}
	if err := r.speak("disagg-sidecar", "", bus.Table); err != nil {
		r.t.Errorf("the sidecar of model servers does not hear who they are: %v", err)
	}
	if err := r.speak("disagg-sidecar", bus.Table, ""); err == nil {
		r.t.Error("the sidecar of model servers says who they are")
	}
}
