package epconfig

import (
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// What was reported of loaders like this one; the ids are those of the reports.
func TestReports(t *testing.T) {
	const filledIn = "schedulingProfiles:\n  - name: default\n"
	for _, c := range []struct {
		id, text string
		want     want
	}{
		{"B113 only scorers", head + "plugins:\n- type: queue-scorer\n- type: kv-cache-scorer\n", want{
			infos: []string{`profile "default" of every plug-in is used`, "max-score-picker is used", "single-profile-handler is used"},
			check: func(t *testing.T, l *Loaded) {
				shaped("default: | queue-scorer×1 kv-cache-scorer×1 | max-score-picker(1)")(t, l)
				contains(t, "effective", string(l.Effective), []string{filledIn, "type: single-profile-handler", "pluginRef: max-score-picker", "weight: 1\n"})
			},
		}},
		{"B113 an empty text", "", want{
			warnings: []string{"epp.yaml: the configuration is empty; the built-in default is used"},
			check: func(t *testing.T, l *Loaded) {
				shaped("default: | queue-scorer×2 kv-cache-scorer×2 prefix-cache-scorer×3 | max-score-picker(1)")(t, l)
				contains(t, "effective", string(l.Effective), []string{filledIn})
			},
		}},
		{"B113 nothing but comments", "# to be written\n---\n", want{warnings: []string{"the configuration is empty"}}},
		{"B120 what other sections are for", queue + "featureGates: [dataLayer, prepareDataPlugins, enableLegacyMetrics]\ndataLayer: {}\ndata: {}\nparser: {}\nrequestHandler: {}\n", want{infos: []string{
			"featureGates[0]: dataLayer is on by nature: the metrics-collector is the data layer",
			"featureGates[1]: prepareDataPlugins is on by nature: scorers are asked for what they need",
			"featureGates[2]: enableLegacyMetrics is of no effect: metrics have one set of names here",
			"dataLayer: is not needed here: the metrics-collector discovers endpoints and scrapes them",
			"data: is not needed here: the metrics-collector discovers endpoints and scrapes them",
			"parser: is not needed here: the router's fronts read OpenAI request bodies by their path",
			"requestHandler: is not needed here: the router's fronts read OpenAI request bodies by their path",
		}}},
		{"B126 absent sections", queue, want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
	} {
		t.Run(c.id, func(t *testing.T) { c.want.run(t, c.text) })
	}
}

// asking is a service that says who was asked for.
type asking struct {
	scorers
	asked []string
}

func (a *asking) Resolve(name, typ string, parameters []byte) (service string, asked any, failClosed bool, warnings []string, err error) {
	a.asked = append(a.asked, typ)
	return a.scorers.Resolve(name, typ, parameters)
}

// B111: whatever the router does not have is asked of the services, known or not, so
// that theirs is the word on it.
func TestB111EveryOtherTypeIsAskedFor(t *testing.T) {
	a := &asking{}
	_, err := Load("epp.yaml", []byte(head+"plugins:\n- type: queue-scorer\n- type: low-queue-filter\n- type: acme-carbon\n- type: latency-scorer\n- type: max-score-picker\n"), Deps{Scorers: a})
	if got, want := strings.Join(a.asked, " "), "queue-scorer acme-carbon latency-scorer"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	contains(t, "error", err.Error(), []string{
		`epp.yaml:6:9: plugins[2].type: unknown plug-in type: no scorer serves type "acme-carbon"; not reached: acme`,
		`epp.yaml:7:9: plugins[3].type: plug-in type "latency-scorer" (scorer) of newer endpoint pickers is not here yet`,
	})
}

// A new load of the same text shares nothing with the old one that could be changed.
func TestLoadsAreIndependent(t *testing.T) {
	reg := BuiltIn()
	var configs []*route.Config
	for range 2 {
		l, err := Load("epp.yaml", []byte(file(t, "tree.yaml")), Deps{Scorers: &scorers{}, Registry: reg})
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, l.Config)
	}
	if configs[0] == configs[1] || configs[0].Profiles[0] == configs[1].Profiles[0] || configs[0].Profiles[0].Filters[0] == configs[1].Profiles[0].Filters[0] {
		t.Error("two loads share plug-ins")
	}
}
