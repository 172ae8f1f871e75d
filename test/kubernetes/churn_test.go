package kubernetes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

// lasts is how long something lasts; make churn makes it longer by a variable.
func lasts(t *testing.T, variable string, normally time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return normally
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// address is that of pod number i.
func address(i int) string { return fmt.Sprintf("127.0.%d.%d", 2+i/250, 1+i%250) }

// pods makes ready pods, some at a time.
func (w *world) pods(t testing.TB, app string, from, to int) {
	t.Helper()
	var workers sync.WaitGroup
	for k := range 8 {
		workers.Go(func() {
			for i := from + k; i < to; i += 8 {
				w.pod(t, fmt.Sprintf("%s-%d", app, i), app, address(i))
			}
		})
	}
	workers.Wait()
}

// truth is the set of ready addresses that the API server has, ascending.
func (w *world) truth(t testing.TB, app string, port int) []string {
	t.Helper()
	text, err := w.Do(t.Context(), http.MethodGet, fmt.Sprintf(podsOf, w.ns)+"?labelSelector=app%3D"+app, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Status struct {
				PodIP      string
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				out = append(out, fmt.Sprintf("%s:%d", p.Status.PodIP, port))
			}
		}
	}
	slices.Sort(out)
	return out
}

// converge waits until the roster has exactly the API server's set.
func (w *world) converge(t testing.TB, h *holder, app string, port int) {
	t.Helper()
	want := w.truth(t, app, port)
	began := time.Now()
	kittest.Eventually(t, "the roster has exactly what the API server has", func() bool { return slices.Equal(h.addresses(), want) })
	t.Logf("%d endpoints are in the roster after %v", len(want), time.Since(began).Round(time.Millisecond))
}

func TestFiveHundredPodsThatComeAndGo(t *testing.T) {
	t.Parallel()
	const many, port = 500, 1 // nobody is there: scrapes fail at once
	w := newWorld(t)
	w.pool(t, "m", port)
	w.pods(t, "m", 0, many)
	h := w.follow(t, w.ns+"/m")
	cluster.Binary(t, "metrics-collector") // that it is built does not count
	began := time.Now()
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	w.converge(t, h, "m", port)
	t.Logf("%v after a collector was started", time.Since(began).Round(time.Millisecond))
	if n := h.Snapshot().Len(); n != many {
		t.Fatalf("%d endpoints, want %d", n, many)
	}
	w.churn(t, many, 50, lasts(t, "CHURN", 6*time.Second))
	w.converge(t, h, "m", port)
	if n := metric(t, c, "kubernetes_errors_total", ""); n != 0 {
		t.Errorf("%v errors", n)
	}
	if n := metric(t, c, "endpoints", ""); int(n) != h.Snapshot().Len() {
		t.Errorf("the gauge says %v", n)
	}
}

// churn replaces, flaps and relabels pods so many times a second.
func (w *world) churn(t testing.TB, pods, perSecond int, lasts time.Duration) {
	t.Helper()
	work := make(chan int, perSecond)
	var workers sync.WaitGroup
	locks := make([]sync.Mutex, pods)
	for range 8 {
		workers.Go(func() {
			for i := range work {
				locks[i].Lock()
				w.stir(t, i)
				locks[i].Unlock()
			}
		})
	}
	n, began := 0, time.Now()
	for ; time.Since(began) < lasts; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
		work <- rand.N(pods)
	}
	close(work)
	workers.Wait()
	took := time.Since(began)
	t.Logf("%d pods changed in %v, %.0f a second", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
}

// stir does something to pod number i, which is there.
func (w *world) stir(t testing.TB, i int) {
	name := fmt.Sprintf("m-%d", i)
	switch rand.N(4) {
	case 0:
		w.status(t, name, address(i), false)
	case 1:
		w.Patch(t, w.podPath(name), apiserver.Object{"metadata": object{"labels": object{"app": [...]string{"m", "n"}[rand.N(2)]}}})
	default: // replaced, at once
		w.Delete(t, w.podPath(name))
		w.pod(t, name, "m", address(i))
	}
}

// B086: the watch is cut, again and again and for long, while pods go.
func TestB086_a_watch_that_is_cut(t *testing.T) {
	t.Parallel()
	const many, port = 60, 1
	w := newWorld(t)
	wire := newProxy(t, w.URL)
	w.pool(t, "m", port)
	w.pods(t, "m", 0, many)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, "--kubeconfig="+w.Kubeconfig(t, wire.url(), w.AdminToken()))
	h := w.follow(t, w.ns+"/m")
	w.converge(t, h, "m", port)

	lists := metric(t, c, "kubernetes_lists_total", `resource="pods"`)
	for i := range 3 { // a short cut, with one pod deleted meanwhile
		wire.set(true)
		w.Delete(t, w.podPath(fmt.Sprintf("m-%d", i)))
		wire.set(false)
		w.converge(t, h, "m", port)
	}
	if n := metric(t, c, "kubernetes_lists_total", `resource="pods"`); n < lists+3 {
		t.Errorf("pods were listed %v times after 3 cuts, want at least that many more than %v", n, lists)
	}

	wire.set(true)
	kittest.Eventually(t, "the loss shows in a gauge", func() bool {
		return metric(t, c, "kubernetes_following", "") == 0 && metric(t, c, "kubernetes_errors_total", `reason="unreachable"`) > 0
	})
	for i := 10; i < 30; i++ {
		w.Delete(t, w.podPath(fmt.Sprintf("m-%d", i)))
	}
	w.pods(t, "m", many, many+5)
	w.Patch(t, w.poolPath("m"), object{"spec": object{"targetPorts": numbers(port + 1)}})
	if n := h.Snapshot().Len(); n != many-3 {
		t.Errorf("%d endpoints while the API server cannot be reached, want the %d that were known", n, many-3)
	}
	if ok, why := ready(t, c); !ok {
		t.Errorf("an outage of the API server makes the collector unready: %s", why)
	}
	time.Sleep(lasts(t, "OUTAGE", 3*time.Second)) // attempts are at their rarest
	wire.set(false)
	w.converge(t, h, "m", port+1)
	kittest.Eventually(t, "the gauge tells of the recovery", func() bool { return metric(t, c, "kubernetes_following", `resource="pods"`) == 1 })
}
