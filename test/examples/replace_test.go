package examples

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// load asks in a closed loop until the test has seen enough.
type load struct {
	answered, lost atomic.Int64
	running        sync.WaitGroup
	stop           context.CancelFunc
}

func startLoad(t *testing.T, url string, callers int) *load {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	l := &load{stop: stop}
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	client := &http.Client{Transport: transport}
	for caller := range callers {
		l.running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprintf(`{"model":"sim-model","max_tokens":2,"messages":[{"role":"user","content":"%d of %d"}]}`, i, caller)
				a, err := cluster.Post(ctx, client, url+"/v1/chat/completions", []byte(body))
				switch {
				case ctx.Err() != nil:
				case err != nil || a.Status != http.StatusOK:
					if l.lost.Add(1) == 1 {
						t.Errorf("a request was lost: status %d, error %v: %s", a.Status, err, a.Body)
					}
				default:
					l.answered.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		l.running.Wait()
		transport.CloseIdleConnections()
	})
	return l
}

// await waits for so many more answers.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	want := l.answered.Load() + more
	kittest.Eventually(t, fmt.Sprintf("%d more answers", more), func() bool { return l.answered.Load() >= want })
}

// The built-in queue-scorer is replaced by one in Python while requests come, and back,
// and the Python process is killed in between: no request is lost.
func TestReplacingABuiltInScorerUnderLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "epp.yaml")
	write := func(weight int) {
		t.Helper()
		if err := os.WriteFile(file+".next", []byte(config(fmt.Sprintf("queue-scorer: %d", weight))), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	write(2)
	address := free(t)
	c := cluster.Start(t, cluster.Options{
		Servers: 4, Server: quick, Plain: true, ConfigFile: file, RouterSets: []string{"scorerWait=200ms", "scoring.timeout=1s"},
		Scorers: []string{fmt.Sprintf("{name: choices, target: %q}", address)},
	})
	router := c.Router(t, 0)
	asked := func() string { // who is asked for queue-scorer now
		d := decisions(t, router, 1)
		if len(d) == 0 {
			return ""
		}
		return d[0].GetProfiles()[0].GetScorers()[0].GetScorer()
	}
	l := startLoad(t, c.URL(0), 8)
	l.await(t, 100)
	if got := asked(); got != "scorer-queue" {
		t.Errorf("at first %q is asked", got)
	}

	python := all()[1].process(t, address, "--type", "queue-scorer", "--name", "choices")
	python.Start(t)
	kittest.Eventually(t, "the scorer in Python to be ready", func() bool { return ready(t, router, "choices") })
	write(3)
	kittest.Eventually(t, "the scorer in Python to be asked", func() bool { return asked() == "choices" })
	l.await(t, 300)
	if s := scorerStatus(t, router, "choices"); s.GetCallCount() == 0 || s.GetCallCount() == s.GetFailureCount() {
		t.Errorf("the scorer in Python has answered %d of %d calls", s.GetCallCount()-s.GetFailureCount(), s.GetCallCount())
	}

	python.Kill()
	l.await(t, 200)
	kittest.Eventually(t, "its death to show", func() bool {
		s := scorerStatus(t, router, "choices")
		return !ready(t, router, "choices") && s.GetReplicas()[0].GetReason() != ""
	})
	python.Start(t)
	kittest.Eventually(t, "it to be back", func() bool { return ready(t, router, "choices") })
	l.await(t, 200)
	kittest.Eventually(t, "it to score again", func() bool {
		d := decisions(t, router, 1)
		return len(d) > 0 && d[0].GetProfiles()[0].GetScorers()[0].GetVerdict() == routerv1.ScorerVerdict_SCORER_VERDICT_SCORED
	})
	python.Stop(t)
	l.await(t, 100)
	l.stop()
	l.running.Wait()
	if lost := l.lost.Load(); lost > 0 {
		t.Errorf("%d requests were lost", lost)
	}
	t.Logf("%d requests were answered, none was lost", l.answered.Load())
}
