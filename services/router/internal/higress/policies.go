package higress

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const head = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
`

// globalLeastRequest: no scorer, and the picker.
func globalLeastRequest(f *fields, out *Imported) {
	out.Redis = f.redis()
	limit := f.limit()
	f.housekeeping()
	var b strings.Builder
	b.WriteString("# global_least_request: the endpoint with the fewest requests in flight over all routers.\n" + head)
	b.WriteString("plugins:\n")
	b.WriteString(picker(limit, ""))
	b.WriteString("- type: single-profile-handler\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: global-least-request-picker\n")
	out.Text = []byte(b.String())
	f.tellRedis(out)
}

// prefixCache: the longest match, and the picker among equals, which all are without any
// match.
func prefixCache(f *fields, out *Imported) {
	out.Redis = f.redis()
	limit := f.limit()
	f.housekeeping()
	out.PrefixTTL = time.Duration(f.integer("redisKeyTTL", "seconds", 0, defaultKeyTTL)) * time.Second
	var b strings.Builder
	b.WriteString("# prefix_cache: the endpoint with the longest match of the prompt; without one, and among\n# equals, the one with the fewest requests in flight over all routers.\n" + head)
	b.WriteString("plugins:\n- type: prefix-cache-scorer\n")
	b.WriteString(picker(limit, "    # A match wins whatever the load, as in the plug-in. To weigh load against it: with 0.5, who\n    # holds half a prompt more may be passed over for who has fewer requests in flight.\n    scoreSlack: 0\n"))
	b.WriteString("- type: single-profile-handler\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: prefix-cache-scorer\n    weight: 1\n  - pluginRef: global-least-request-picker\n")
	out.Text = []byte(b.String())
	f.tellRedis(out)
	if out.Redis != nil {
		f.info(f.at["redisKeyTTL"], f.name("redisKeyTTL"), "prefixes are kept by prefix-indexer, in memory unless told otherwise; to have them in Redis as the plug-in does, start it with --set store=redis --set keyTTL=%v --set redis.address=%s and the same username, password and database", out.PrefixTTL, out.Redis.Address)
	}
}

// picker writes the declaration of the picker.
func picker(limit int, more string) string {
	text := "- type: global-least-request-picker\n"
	if limit == 0 && more == "" {
		return text
	}
	text += "  parameters:\n"
	if limit > 0 {
		text += fmt.Sprintf("    maxRequestCount: %d\n", limit)
	}
	return text + more
}

// limit reads maxRequestCount; 0 and below: no limit.
func (f *fields) limit() int { return max(f.integer("maxRequestCount", "", -1<<31, 0), 0) }

// housekeeping reads the fields that have no effect here.
func (f *fields) housekeeping() {
	for key, why := range map[string]string{
		"cleanInterval":   "counts of endpoints that have left are dropped at once, and those of routers within redis.leaseTTL",
		"enableDetailLog": "pointsman decisions shows each decision, pointsman explain why",
	} {
		if n := f.get(key); n != nil {
			f.info(n, f.name(key), "has no effect: %s", why)
		}
	}
}

func (f *fields) tellRedis(out *Imported) {
	if out.Redis == nil {
		return
	}
	f.info(f.at["serviceFQDN"], f.name("serviceFQDN"), "the router counts in Redis at %s, unless its own setting redis.address says otherwise", out.Redis.Address)
	if t := f.get("timeout"); t != nil {
		f.info(t, f.name("timeout"), "is how long a connection to Redis may take; a request waits for redis.budget, 25ms by default")
	}
}

// quoted writes a list of texts in a way that YAML reads too.
func quoted(list []string) string {
	if list == nil {
		list = []string{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "[]" // a list of strings always marshals
	}
	return string(text)
}
