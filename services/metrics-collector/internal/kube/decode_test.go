package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const readyPod = `{"metadata":{"name":"a","namespace":"n","uid":"u-1","labels":{"app":"m","zone":"x"}%s},"status":{"phase":"Running","podIP":"10.0.0.5","podIPs":[{"ip":"10.0.0.5"},{"ip":"fd00::5"}],"conditions":[{"type":"Ready","status":"True"}]}}`

func parsePool(t *testing.T, spec string) *pool {
	t.Helper()
	p, err := decodePool([]byte(`{"metadata":{"name":"m","namespace":"n"},"spec":` + spec + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEndpointsOfAPod(t *testing.T) {
	pool := parsePool(t, `{"selector":{"matchLabels":{"app":"m"}},"targetPorts":[{"number":8000},{"number":8001}]}`)
	with := func(more string) string { return fmt.Sprintf(readyPod, more) }
	for name, c := range map[string]struct {
		pod, family string
		want        []string // address=id
	}{
		"ready":              {with(""), "", []string{"10.0.0.5:8000=a-rank-0/u-1", "10.0.0.5:8001=a-rank-1/u-1"}},
		"B101 ipv4":          {with(""), ipv4, []string{"10.0.0.5:8000=a-rank-0/u-1", "10.0.0.5:8001=a-rank-1/u-1"}},
		"B101 ipv6":          {with(""), ipv6, []string{"fd00::5:8000=a-rank-0/u-1", "fd00::5:8001=a-rank-1/u-1"}},
		"B101 none of ipv6":  {strings.ReplaceAll(with(""), "fd00::5", "10.0.0.6"), ipv6, nil},
		"mapped address":     {strings.ReplaceAll(with(""), "10.0.0.5", "::ffff:10.0.0.5"), ipv4, []string{"10.0.0.5:8000=a-rank-0/u-1", "10.0.0.5:8001=a-rank-1/u-1"}},
		"terminating":        {with(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`), "", nil},
		"B093 elsewhere":     {strings.Replace(with(""), `"namespace":"n"`, `"namespace":"other"`, 1), "", nil},
		"other labels":       {strings.Replace(with(""), `"app":"m"`, `"app":"x"`, 1), "", nil},
		"unready":            {strings.Replace(with(""), `"True"`, `"False"`, 1), "", nil},
		"unknown":            {strings.Replace(with(""), `"True"`, `"Unknown"`, 1), "", nil},
		"evicted":            {strings.Replace(with(""), `"Running"`, `"Failed"`, 1), "", nil},
		"finished":           {strings.Replace(with(""), `"Running"`, `"Succeeded"`, 1), "", nil},
		"no address":         {strings.NewReplacer("10.0.0.5", "", "fd00::5", "").Replace(with("")), "", nil},
		"no real address":    {strings.NewReplacer("10.0.0.5", "0.0.0.0", "fd00::5", "::").Replace(with("")), "", nil},
		"nonsense address":   {strings.NewReplacer("10.0.0.5", "10.0.0.5:80", "fd00::5", "[fd00::5]").Replace(with("")), "", nil},
		"an address's zone":  {strings.ReplaceAll(with(""), "fd00::5", "fe80::5%eth0"), ipv6, []string{"fe80::5:8000=a-rank-0/u-1", "fe80::5:8001=a-rank-1/u-1"}},
		"no status":          {`{"metadata":{"name":"a","namespace":"n","uid":"u-1","labels":{"app":"m"}}}`, "", nil},
		"odd lists of ports": {with(`,"annotations":{"llm-d.ai/active-ports":",,+8000;8001\u0000,0x1f40,8001.0, 08000"}`), "", []string{"10.0.0.5:8000=a-rank-0/u-1"}},
		"one port is active": {with(`,"annotations":{"llm-d.ai/active-ports":" 8001 ,8001,70000,-1,x"}`), "", []string{"10.0.0.5:8001=a-rank-1/u-1"}},
		"none is active":     {with(`,"annotations":{"llm-d.ai/active-ports":""}`), "", nil},
		"the newer key wins": {with(`,"annotations":{"inference.networking.k8s.io/active-ports":"8001","llm-d.ai/active-ports":"8000"}`), "", []string{"10.0.0.5:8000=a-rank-0/u-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decodePod([]byte(c.pod))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range p.endpoints(pool, c.family) {
				got = append(got, fmt.Sprintf("%s:%d=%s", e.Host, e.Port, e.ID))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestIDsFit(t *testing.T) {
	pool := parsePool(t, `{"selector":{"app":"m"},"targetPortNumber":8000}`)
	p, err := decodePod([]byte(strings.NewReplacer(`"name":"a"`, `"name":"`+strings.Repeat("n", 253)+`"`, "u-1", strings.Repeat("u", 36)).Replace(fmt.Sprintf(readyPod, ""))))
	if err != nil {
		t.Fatal(err)
	}
	if es := p.endpoints(pool, ""); len(es) != 1 || len(es[0].ID) > 128 || !strings.HasSuffix(es[0].ID, "-rank-0/"+strings.Repeat("u", 36)) {
		t.Errorf("endpoints %+v", es)
	}
}

// One pod's labels do not fill the table of all. What stays is what pods have that are
// not made to do harm, and the pool is selected by all of them.
func TestLabelsFit(t *testing.T) {
	labels := map[string]string{"app": "m", "llm-d.ai/role": "decode"}
	for i := range 2000 {
		labels[fmt.Sprintf("x.example/%0250d", i)] = strings.Repeat("y", 63)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "u", "labels": labels}, "status": map[string]any{
		"podIP": "10.0.0.5", "conditions": []map[string]string{{"type": "Ready", "status": "True"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodePod(text)
	if err != nil {
		t.Fatal(err)
	}
	es := p.endpoints(parsePool(t, `{"selector":{"app":"m","x.example/`+fmt.Sprintf("%0250d", 1999)+`":"`+strings.Repeat("y", 63)+`"},"targetPortNumber":8000}`), "")
	if len(es) != 1 {
		t.Fatalf("endpoints %v", es)
	}
	size := 0
	for name, value := range es[0].Labels {
		size += len(name) + len(value)
	}
	if got := es[0].Labels; got["app"] != "m" || got["llm-d.ai/role"] != "decode" || size > maxLabelBytes || size < maxLabelBytes/2 {
		t.Errorf("%d labels of %d bytes are told", len(got), size)
	}
}

func TestPools(t *testing.T) {
	const selector = `"selector":{"matchLabels":{"app":"m"}}`
	for name, c := range map[string]struct{ spec, fault string }{
		"D18 second generation":              {`{` + selector + `,"targetPorts":[{"number":1},{"number":65535}]}`, ""},
		"D18 first generation":               {`{"selector":{"app":"m"},"targetPortNumber":8000}`, ""},
		"a label matchLabels":                {`{"selector":{"matchLabels":"x"},"targetPortNumber":8000}`, ""},
		"D19 second, with labels at the top": {`{"selector":{"app":"m"},"targetPorts":[{"number":8000}]}`, "has no matchLabels"},
		"D19 no selector":                    {`{"targetPorts":[{"number":8000}]}`, "spec.selector: is empty"},
		"D19 no spec":                        {`null`, "spec.selector: is empty"},
		"no selector":                        {`{"targetPortNumber":8000}`, "spec.selector: is empty"},
		"empty selector":                     {`{"selector":{"matchLabels":{}},"targetPortNumber":8000}`, "spec.selector: is empty"},
		"expressions":                        {`{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[]},"targetPortNumber":8000}`, "more than matchLabels"},
		"no ports":                           {`{` + selector + `}`, "there are 0"},
		"nine ports":                         {`{` + selector + `,"targetPorts":[{"number":1},{"number":2},{"number":3},{"number":4},{"number":5},{"number":6},{"number":7},{"number":8},{"number":9}]}`, "there are 9"},
		"a port twice":                       {`{` + selector + `,"targetPorts":[{"number":1},{"number":1}]}`, "1 is there twice"},
		"a port too high":                    {`{` + selector + `,"targetPorts":[{"number":65536}]}`, "65536 is no port"},
		"ports that are none":                {`{` + selector + `,"targetPorts":"8000"}`, "cannot unmarshal"},
		"no map of labels":                   {`{"selector":[],"targetPortNumber":8000}`, "cannot unmarshal"},
		"a label that is a map":              {`{"selector":{"app":{}},"targetPortNumber":8000}`, "spec.selector.app"},
	} {
		t.Run(name, func(t *testing.T) {
			p := parsePool(t, c.spec)
			if c.fault == "" && p.fault != nil || c.fault != "" && (p.fault == nil || !strings.Contains(p.fault.Error(), c.fault)) {
				t.Errorf("fault %v, want %q", p.fault, c.fault)
			}
			if strings.HasPrefix(name, "D18") && p.labelSelector() != "app=m" {
				t.Errorf("it selects %s", p.labelSelector())
			}
			if p.fault != nil && p.selects(map[string]string{"app": "m"}) {
				t.Error("a pool that cannot be used selects pods")
			}
		})
	}
}

func TestObjects(t *testing.T) {
	const ref = `"poolRef":{"name":"m"}`
	decode := func(kind, spec string) (any, error) {
		raw := json.RawMessage(`{"metadata":{"name":"o","namespace":"n"},"spec":` + spec + `}`)
		switch kind {
		case "objective":
			o, err := decodeObjective(raw)
			if err != nil {
				return nil, err
			}
			return o.priority, nil
		case "rewrite":
			r, err := decodeRewrite(raw)
			if err != nil {
				return nil, err
			}
			return r.rules, nil
		}
		m, err := decodeModel(raw)
		if err != nil {
			return nil, err
		}
		return m.served, nil
	}
	for name, c := range map[string]struct {
		kind, spec string
		want       any
		fault      string
	}{
		"no priority":         {"objective", `{` + ref + `}`, int32(0), ""},
		"below zero":          {"objective", `{` + ref + `,"priority":-5}`, int32(-5), ""},
		"too large":           {"objective", `{` + ref + `,"priority":5000000000}`, nil, "cannot unmarshal"},
		"another kind":        {"objective", `{"poolRef":{"kind":"Service","name":"m"}}`, nil, "names no InferencePool"},
		"no pool":             {"objective", `{}`, nil, "names no InferencePool"},
		"some weights":        {"rewrite", `{` + ref + `,"rules":[{"targets":[{"modelRewrite":"a","weight":3},{"modelRewrite":"b"}]}]}`, []fleet.RewriteRule{{Targets: []fleet.ModelTarget{{Model: "a", Weight: 3}, {Model: "b", Weight: 1}}}}, ""},
		"no weights":          {"rewrite", `{` + ref + `,"rules":[{"matches":[{"model":{"value":"x"}}],"targets":[{"modelRewrite":"a"}]}]}`, []fleet.RewriteRule{{Models: []string{"x"}, Targets: []fleet.ModelTarget{{Model: "a", Weight: -1}}}}, ""},
		"weight below zero":   {"rewrite", `{` + ref + `,"rules":[{"targets":[{"modelRewrite":"a","weight":-1}]}]}`, nil, "weight is not"},
		"no targets":          {"rewrite", `{` + ref + `,"rules":[{}]}`, nil, "targets: is empty"},
		"no rules":            {"rewrite", `{` + ref + `}`, nil, "spec.rules: is empty"},
		"another match":       {"rewrite", `{` + ref + `,"rules":[{"matches":[{"model":{"type":"Prefix","value":"x"}}],"targets":[{"modelRewrite":"a"}]}]}`, nil, "something else than a model's name exactly"},
		"a match of nothing":  {"rewrite", `{` + ref + `,"rules":[{"matches":[{}],"targets":[{"modelRewrite":"a"}]}]}`, nil, "something else"},
		"a control character": {"rewrite", `{` + ref + `,"rules":[{"targets":[{"modelRewrite":"a\n"}]}]}`, nil, "control character"},
		"critical":            {"model", `{` + ref + `,"modelName":"x","criticality":"Critical"}`, fleet.ServedModel{Model: "x", Criticality: fleet.Critical}, ""},
		"another word":        {"model", `{` + ref + `,"modelName":"x","criticality":"critical"}`, nil, "none of Critical"},
		"no name":             {"model", `{` + ref + `}`, nil, "spec.modelName"},
		"a long name":         {"model", `{` + ref + `,"modelName":"` + strings.Repeat("x", 257) + `"}`, nil, "not 257"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decode(c.kind, c.spec)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("error %v, want %q in it", err, c.fault)
				}
				return
			}
			if d := cmp.Diff(c.want, got); d != "" || err != nil {
				t.Errorf("%v %s", err, d)
			}
		})
	}
}

// What the API server sends is not ours: nothing of it may do harm, and endpoints must
// fit into tables.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(readyPod, "")))
	f.Add([]byte(`{"metadata":{"name":"m","namespace":"n"},"spec":{"selector":{"matchLabels":{"app":"m"}},"targetPorts":[{"number":8000}]}}`))
	f.Add([]byte(`{"metadata":{"name":"o"},"spec":{"poolRef":{"name":"m"},"rules":[{"targets":[{"modelRewrite":"a"}]}],"modelName":"x"}}`))
	f.Add([]byte(`{"kind":"Status","code":410}`))
	pools := []*pool{{key: Key{"n", "m"}, ports: []uint16{1, 2}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := decodePool(raw); err == nil && (p.fault == nil) != (len(p.selector) > 0 && len(p.ports) > 0) && p.fault == nil {
			t.Errorf("a pool without fault selects %v on %v", p.selector, p.ports)
		}
		if p, err := decodePod(raw); err == nil {
			for _, in := range pools {
				for _, e := range p.endpoints(in, "") {
					if len(e.ID) > 128 || e.Host == "" || e.Port == 0 {
						t.Errorf("endpoint %+v", e)
					}
				}
			}
		}
		if r, err := decodeRewrite(raw); err == nil && len(r.rules) == 0 {
			t.Error("a rewrite without rules")
		}
		if m, err := decodeModel(raw); err == nil && m.served.Model == "" {
			t.Error("a model without name")
		}
		if _, err := decodeObjective(raw); err == nil && !json.Valid(raw) {
			t.Error("an objective that is no JSON")
		}
		_ = refusal(500, raw).Error()
	})
}
