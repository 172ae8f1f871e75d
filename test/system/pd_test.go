package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// pdConfig has a profile for each role. The parameters of the handler are to be filled in.
const pdConfig = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: %s}%s}
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 512}
- type: always-disagg-pd-decider
- type: decode-filter
- type: prefill-filter
- type: prefix-cache-scorer
- type: active-request-scorer
- type: token-load-scorer
schedulingProfiles:
- name: decode
  plugins:
  - pluginRef: decode-filter
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: active-request-scorer, weight: 1}
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - {pluginRef: token-load-scorer, weight: 1}
`

const byPrefix = "prefix-based-pd-decider"

// pd is a cluster with prefill and decode servers apart.
type pd struct {
	*cluster.Cluster
	prefill, decode []*modelserver.Server
	client          *http.Client
	sent            atomic.Int64
	kept            int // prompts that nobody will fetch: model servers keep them for minutes
}

// startPD runs servers of which the first ones prefill.
func startPD(t *testing.T, prefill, decode int, o cluster.Options) *pd {
	t.Helper()
	o.Servers = prefill + decode
	change := o.Server
	o.Server = func(i int, cfg *modelserver.Config) {
		cfg.TimeScale = 10
		cfg.Transfer.Connector = modelserver.NIXL
		if change != nil {
			change(i, cfg)
		}
	}
	if o.Labels == nil {
		o.Labels = func(i int) string {
			if i < prefill {
				return "{llm-d.ai/role: prefill}"
			}
			return "{llm-d.ai/role: decode}"
		}
	}
	o.RouterSets = append(o.RouterSets, patient...)
	c := cluster.Start(t, o)
	return &pd{Cluster: c, prefill: c.Servers[:prefill], decode: c.Servers[prefill:], client: newClient(t)}
}

// addRouter starts one more router, with its own configuration and settings, and returns its
// number.
func (p *pd) addRouter(t *testing.T, config string, sets ...string) int {
	t.Helper()
	var targets []string
	for name, s := range p.Scorers {
		targets = append(targets, fmt.Sprintf("{name: %s, target: %q}", name, s.Addr("grpc")))
	}
	args := []string{"--set", "scorers=[" + strings.Join(targets, ", ") + "]", "--set", patient[0], "--set", "drainDelay=0s", "--configText", config}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	placement(t, p.Cluster, fmt.Sprintf("router-%d", len(p.Routers)+1), "router", args...)
	n := len(p.Routers) - 1
	t.Cleanup(func() {
		p.Routers[n].Stop(t)
		p.Routers = p.Routers[:n]
	})
	return n
}

// cold is a prompt of some 1,500 tokens that nobody has seen.
func (p *pd) cold() string {
	n := p.sent.Add(1)
	return fmt.Sprintf("story %d: ", n) + strings.Repeat(fmt.Sprintf("chapter %d of it. ", n), 350)
}

// completion is what a client hears.
type completion struct {
	status int
	header http.Header
	body   []byte
	text   string
	cached int // tokens; -1 if the answer does not say
}

func (p *pd) body(prompt string, stream bool) []byte {
	b, err := json.Marshal(map[string]any{"model": "sim-model", "prompt": prompt, "max_tokens": 8, "ignore_eos": true, "stream": stream, "stream_options": map[string]any{"include_usage": true}})
	if err != nil {
		panic(err) // maps of constants
	}
	return b
}

// ask sends a prompt through a router.
func (p *pd) ask(t *testing.T, router int, prompt string, header ...string) completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL(router)+"/v1/completions", bytes.NewReader(p.body(prompt, false)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := completion{status: resp.StatusCode, header: resp.Header, cached: -1}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
		Usage struct {
			Details *struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if json.Unmarshal(out.body, &m) == nil && len(m.Choices) == 1 {
		out.text = m.Choices[0].Text
		if m.Usage.Details != nil {
			out.cached = m.Usage.Details.Cached
		}
	}
	return out
}

// requests is how many requests the servers have had.
func requests(servers []*modelserver.Server) uint64 {
	n := uint64(0)
	for _, s := range servers {
		n += s.Stats().Submitted
	}
	return n
}

// fault sets the same faults at servers.
func fault(t *testing.T, servers []*modelserver.Server, f modelserver.Faults) {
	t.Helper()
	for _, s := range servers {
		if err := s.SetFaults(f); err != nil {
			t.Fatal(err)
		}
	}
}

// is says whether the answer is of one of the servers.
func (c *completion) is(servers []*modelserver.Server) bool {
	return slices.ContainsFunc(servers, func(s *modelserver.Server) bool { return c.header.Get("x-sim-server") == s.Address() })
}

// nothingLeft waits until no request is reserved, under way or kept anywhere.
func (p *pd) nothingLeft(t *testing.T) {
	t.Helper()
	p.AwaitIdle(t)
	kittest.Eventually(t, "no server to have a request", func() bool {
		kept := 0
		for _, s := range p.Servers {
			st := s.Stats()
			if kept += st.Held; s.InFlight() != 0 || st.Running+st.Waiting != 0 {
				return false
			}
		}
		return kept == p.kept
	})
}
