package extproc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const who = "x-tenant-id"

func saltedRig(t *testing.T, more ...option) *rig {
	salts := func(r *rig, _ *Config) {
		r.deps = func(d *Deps) {
			d.Salt = edge.NewSalter(edge.SaltConfig{IdentityHeader: who, Secret: "sixteen bytes or more"})
			d.Rewrite = func(req *route.Request) (string, bool) { return "real", req.Model == "alias" }
		}
	}
	return newRig(t, append([]option{salts}, more...)...)
}

// B224: a tenant that sends another's salt gets one of its own, in every mode in which
// the body is here, and the prompt is hashed by it.
func TestB224SaltsBelongToTenants(t *testing.T) {
	r := saltedRig(t)
	seed := ""
	r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
		seed = fmt.Sprint(req.Prompt.Blocks(64, 2))
		return r.pick(req)
	})
	type sent struct{ tenant, salt string }
	eachMode(t, func(t *testing.T, mode string) {
		salts, seeds := map[sent]string{}, map[sent]string{}
		for _, c := range []sent{{"a", "victim"}, {"b", "victim"}, {"a", ""}, {"b", ""}, {"", ""}, {"a", "victim"}, {"av", "ictim"}} {
			p := r.open(mode, none)
			body := fmt.Sprintf(`{"model":"alias","prompt":%q,"cache_salt":%q}`, strings.Repeat("p", 200), c.salt)
			var pairs []string
			if c.tenant != "" {
				pairs = []string{who, c.tenant}
			}
			got, out := p.submit(mode, "/v1/completions", body, pairs...)
			p.finish()
			var read struct {
				Model string `json:"model"`
				Salt  string `json:"cache_salt"`
			}
			if err := json.Unmarshal([]byte(out), &read); err != nil || read.Model != "real" || got.Set["content-length"] != fmt.Sprint(len(out)) {
				t.Errorf("%v: %v, the body became %s", c, err, out)
			}
			for other, salt := range salts {
				if (salt == read.Salt) != (other == c) || (seeds[other] == seed) != (other == c) {
					t.Errorf("%v has the salt %s, and %v %s", c, read.Salt, other, salt)
				}
			}
			if len(read.Salt) != 43 {
				t.Errorf("%v has the salt %q", c, read.Salt)
			}
			salts[c], seeds[c] = read.Salt, seed
		}
	})
}

// B224: where a salt cannot be put in, nothing goes on with the client's.
func TestB224NothingGoesOnUnsalted(t *testing.T) {
	r := saltedRig(t)
	refused := 0
	for _, mode := range []string{none, streamed} {
		p := r.open(mode, none)
		p.headers("POST", "/v1/completions", false, who, "a")
		if got := p.refused(); got.Status != 415 || got.Reason != "not-rewritable" {
			t.Errorf("%s: refused with %+v", mode, got)
		}
		refused++
	}
	p := r.duplex()
	p.post("/v1/completions", "\x1f\x8b no gzip", "content-encoding", "compress")
	if got := p.refused(); got.Status != 415 || !strings.Contains(got.Body, "cache salt") {
		t.Errorf("an encoded body: refused with %+v", got)
	}
	p = r.open(partial, none)
	p.headers("POST", "/v1/completions", false, who, "a")
	p.routed()
	p.body(`{"model":"a","prompt":"cut`, false)
	if got := p.refused(); got.Status != 415 {
		t.Errorf("a part of a body: refused with %+v", got)
	}
	r.ended("not-rewritable", refused+2)
	// A path is what a server reads.
	for _, path := range []string{"/v1/%63ompletions", "/v1%2Fcompletions", "/v1/./completions"} {
		p = r.open(none, none)
		p.headers("POST", path, false, who, "a")
		if got := p.refused(); got.Status != 415 {
			t.Errorf("%s: refused with %+v", path, got)
		}
	}
	r.ended("not-rewritable", refused+5)
	// What fills no prefix cache goes on as it is.
	p = r.open(none, none)
	p.headers("POST", "/v1/embeddings", false, who, "a")
	p.routed()
	p.finish()
}
