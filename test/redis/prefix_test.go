package redis

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// conversation is a chat whose turns are of some 40 blocks each.
type conversation struct{ messages []string }

func newConversation(n int) *conversation {
	c := &conversation{}
	c.say("user", fmt.Sprintf("conversation %d: ", n))
	return c
}

func (c *conversation) say(role, text string) {
	c.messages = append(c.messages, fmt.Sprintf(`{"role":%q,"content":%q}`, role, text+strings.Repeat(fmt.Sprintf("%s %d ", text, len(c.messages)), 2500/(len(text)+3))))
}

func (c *conversation) body() []byte {
	return fmt.Appendf(nil, `{"model":"sim-model","max_tokens":4,"messages":[%s]}`, strings.Join(c.messages, ","))
}

// rig is a cluster that conversations are held with.
type rig struct {
	*cluster.Cluster
	t      *testing.T
	client *http.Client
}

// turn has the conversation go on and returns who answered.
func (r *rig) turn(router int, c *conversation) string {
	r.t.Helper()
	a, err := cluster.Post(r.t.Context(), r.client, r.URL(router)+"/v1/chat/completions", c.body())
	if err != nil || a.Status != http.StatusOK {
		r.t.Fatalf("status %d, %v: %s", a.Status, err, a.Body)
	}
	c.say("assistant", "so it is ")
	c.say("user", "and then ")
	return a.Endpoint
}

// believed tells how many blocks of a conversation each server is believed to hold.
func (r *rig) believed(router int, c *conversation) map[string]uint32 {
	r.t.Helper()
	m, err := r.Router(r.t, router).Explain(r.t.Context(), &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Path: "/v1/chat/completions", Body: c.body()}})
	if err != nil {
		r.t.Fatal(err)
	}
	held := map[string]uint32{}
	for _, p := range m.GetDecision().GetProfiles() {
		for _, e := range p.GetCandidates() {
			for _, s := range e.GetScores() {
				if n := s.GetMatchedBlockCount(); n > 0 {
					held[e.GetEndpoint().GetAddress()] = n
				}
			}
		}
	}
	return held
}

// awaitHome waits until a router believes that one server, and no other, holds most of a
// conversation.
func (r *rig) awaitHome(router int, c *conversation, home string) {
	r.t.Helper()
	kittest.Eventually(r.t, "it is known that "+home+" holds the conversation", func() bool {
		held := r.believed(router, c)
		return len(held) == 1 && held[home] > 30
	})
}

// P1, P2, P4 over the whole system: prefixes are shared by routers through Redis, outlive
// the prefix-indexer, and follow a conversation at once when its server dies.
func TestConversationsStayByKeysInRedis(t *testing.T) {
	h := kittest.StartRedis(t)
	r := &rig{t: t, client: newClient(t), Cluster: cluster.Start(t, cluster.Options{
		Servers: 4, Routers: 2, Plain: true, Server: fast, RouterSets: append([]string{"scoring.timeout=2s"}, patient...),
		ConfigFile: pasted(t, h.Address, "prefix_cache", "  redisKeyTTL: 1800\n"),
		ScorerSets: map[string][]string{"prefix-indexer": {"store=redis", "redis.budget=1s", "redis.address=" + h.Address}},
	})}
	awaitShared(t, r.Cluster)
	indexer := r.Scorers["prefix-indexer"]
	kittest.Eventually(t, "prefixes are written", func() bool { return indexer.Metric(t, "pointsman_prefix_indexer_key_writer", "") == 1 })
	homes := map[*conversation]string{}
	for n := range 6 {
		c := newConversation(n)
		homes[c] = r.turn(n%2, c)
	}
	turn := func(when string) {
		t.Helper()
		router := 0
		for c, home := range homes {
			router = 1 - router
			r.awaitHome(router, c, home)
			if at := r.turn(router, c); at != home {
				t.Errorf("%s: a conversation at %s went to %s", when, home, at)
			}
		}
	}
	turn("at another router")

	indexer.Kill()
	indexer.Start(t)
	for i := range r.Routers {
		r.AwaitReady(t, i)
	}
	turn("after kill -9 of the prefix-indexer")
	if indexer.Metric(t, "pointsman_prefix_indexer_key_lookups_total", `result="hit"`) < 6 {
		t.Error("the prefixes did not come from Redis")
	}

	kittest.Eventually(t, "prefixes are written again", func() bool { return indexer.Metric(t, "pointsman_prefix_indexer_key_writer", "") == 1 })
	var c *conversation
	var dead string
	for c, dead = range homes {
		break
	}
	for _, s := range r.Servers {
		if s.Address() == dead {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	home := r.turn(0, c)
	if home == dead {
		t.Fatalf("answered by %s, which is dead", dead)
	}
	r.awaitHome(1, c, home)
	if at := r.turn(1, c); at != home {
		t.Errorf("after a death: a conversation at %s went to %s", home, at)
	}
}

// B142: an engine's prefix cache is wiped while it goes on running, and nobody says so.
// What engines report of their caches puts it right, for conversations too that have not
// been heard of since.
func TestAWipedCacheIsNoticed(t *testing.T) {
	r := &rig{t: t, client: newClient(t), Cluster: cluster.Start(t, cluster.Options{
		Servers: 2, Plain: true, RouterSets: []string{"scoring.timeout=2s"},
		Server: fast,
		ConfigText: `{"apiVersion":"inference.networking.x-k8s.io/v1alpha1","kind":"EndpointPickerConfig",
"plugins":[{"type":"prefix-cache-scorer"},{"type":"max-score-picker"},{"type":"single-profile-handler"}],
"schedulingProfiles":[{"name":"default","plugins":[{"pluginRef":"prefix-cache-scorer","weight":1},{"pluginRef":"max-score-picker"}]}]}`,
	})}
	wiped := r.Servers[0].Address()
	indexer := r.Scorers["prefix-indexer"]
	compared := func(verdict string) float64 {
		return indexer.Metric(t, "pointsman_prefix_indexer_compared_picks_total", verdict)
	}
	turns := 0.0
	turn := func(c *conversation) string {
		at := r.turn(0, c)
		turns++
		kittest.Eventually(t, "the answer is compared", func() bool { return compared("") == turns })
		return at
	}
	var here []*conversation
	for n := 0; len(here) < 8 && n < 80; n++ {
		c := newConversation(n)
		home := turn(c)
		r.awaitHome(0, c, home)
		if at := turn(c); at != home { // so the engine reports hits
			t.Fatalf("a conversation at %s went to %s", home, at)
		}
		r.awaitHome(0, c, home)
		if home == wiped {
			here = append(here, c)
		}
	}
	if len(here) < 8 {
		t.Fatalf("%d conversations came to %s", len(here), wiped)
	}
	resp, err := http.Post("http://"+wiped+"/reset_prefix_cache", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	lost := func() float64 { return indexer.Metric(t, "pointsman_prefix_indexer_lost_caches_total", "") }
	last := len(here) - 1
	for i := last; i >= 3 && lost() == 0; i-- { // the latest first; three of them are believed
		if at := turn(here[i]); at != wiped {
			t.Fatalf("conversation %d at %s went to %s", i, wiped, at)
		}
	}
	if lost() == 0 {
		t.Fatalf("the loss was not noticed: %v agree, %v contradict, %v are unclear", compared("agrees"), compared("contradicts"), compared("unclear"))
	}
	for i, c := range here[:3] {
		kittest.Eventually(t, fmt.Sprintf("conversation %d is not believed to be there", i), func() bool { return len(r.believed(0, c)) == 0 })
	}
	// What was computed since is.
	r.awaitHome(0, here[last], wiped)
}
