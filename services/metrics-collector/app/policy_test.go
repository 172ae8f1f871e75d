package app

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// policyHolder keeps the priorities of the policies that are followed.
type policyHolder struct {
	mu   sync.Mutex
	last map[string]int32
}

func (h *policyHolder) use(m *statev1.PoolPolicy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = make(map[string]int32)
	for _, o := range m.GetObjectives() {
		h.last[o.GetName()] = o.GetPriority()
	}
}

func (h *policyHolder) wait(t *testing.T, want map[string]int32) {
	t.Helper()
	kittest.Eventually(t, "the policy arrives", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return cmp.Equal(h.last, want)
	})
}

// What the endpoints file says of requests reaches who listens, early or late, also
// when it changes, and when there is nothing any more.
func TestPoliciesArrive(t *testing.T) {
	nats := kittest.NATS(t)
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("endpoints: []\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("objectives: [{name: batch, priority: -5}]\n")
	cfg := testConfig(nats, "")
	cfg.Discover.EndpointsFile = file
	var early, late policyHolder
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(early.use) })
	startCollector(t, cfg)
	early.wait(t, map[string]int32{"batch": -5})
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(late.use) })
	late.wait(t, map[string]int32{"batch": -5})
	write("objectives: [{name: batch, priority: -6}, {name: chat, priority: 9}]\n")
	early.wait(t, map[string]int32{"batch": -6, "chat": 9})
	late.wait(t, map[string]int32{"batch": -6, "chat": 9})
	write("")
	early.wait(t, map[string]int32{})
}

// A collector that begins with an older file than the others have does not win over
// them; one whose file is written anew does.
func TestAnOlderFileDoesNotWin(t *testing.T) {
	nats := kittest.NATS(t)
	begin := func(text string, written time.Time) (file string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "endpoints.yaml")
		if err := os.WriteFile(file, []byte("endpoints: []\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, written, written); err != nil {
			t.Fatal(err)
		}
		cfg := testConfig(nats, "")
		cfg.Discover.EndpointsFile = file
		startCollector(t, cfg)
		return file
	}
	var holder, witness policyHolder
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(holder.use) })
	newer := time.Now().Add(-time.Hour)
	begin("objectives: [{name: batch, priority: -5}]\n", newer)
	holder.wait(t, map[string]int32{"batch": -5})
	older := begin("objectives: [{name: batch, priority: 1}]\n", newer.Add(-time.Hour))
	// Whoever listens from now on hears both.
	startHolder(t, nats, func(f *follower.Follower) { f.OnPolicy(witness.use) })
	witness.wait(t, map[string]int32{"batch": -5})
	holder.wait(t, map[string]int32{"batch": -5})
	if err := os.WriteFile(older, []byte("endpoints: []\nobjectives: [{name: batch, priority: 7}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	holder.wait(t, map[string]int32{"batch": 7})
	witness.wait(t, map[string]int32{"batch": 7})
}
