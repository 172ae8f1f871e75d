package epconfig

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// producerType is the plug-in of newer endpoint pickers that hashes prompts and
// remembers where they went, for prefix-cache-scorer, which does both here.
const producerType = "approx-prefix-cache-producer"

// Defaults of the producer that are not those of the scorer.
const (
	producerTunes  = "autoTune"
	producerTokens = "blockSizeTokens"
	producerBlock  = 16 // tokens
)

func producerTypes() []*Type {
	return []*Type{{
		Name: producerType, Role: RoleElsewhere,
		Summary: "Accepted: " + PrefixScorerType + " hashes prompts and remembers where they went by itself. A " + PrefixScorerType +
			" without parameters of its own takes the producer's, with its defaults autoTune true and blockSizeTokens 16.",
		Parameters: []Parameter{
			{Name: producerTunes, Default: true, Summary: "Whether blocks are as large as those of the endpoints' KV cache, where those tell."},
			{Name: producerTokens, Default: producerBlock, Summary: "Tokens in a block, of 4 bytes each, where endpoints do not tell."},
			{Name: "blockSize", Summary: "The same in bytes; older.", Schema: `{"type": "integer"}`},
			{Name: "maxPrefixBlocksToMatch", Default: 256, Summary: "Blocks of a prompt that are looked at."},
			{Name: "maxPrefixTokensToMatch", Default: 0, Summary: "If above 0, the same in tokens."},
			{Name: "lruCapacityPerServer", Default: 31250, Summary: "Blocks remembered per endpoint."},
		},
	}}
}

// producer reads the producer's entry: its parameters are checked by the scorer that
// takes them, but for their names.
func (l *loader) producer(e *pluginEntry, t *Type) {
	p := l.params(e, t)
	if p.Failed() {
		return
	}
	var takers, others []string
	for _, s := range l.doc.plugins {
		switch {
		case s.typ != PrefixScorerType:
		case s.params == nil:
			takers = append(takers, fmt.Sprintf("%q", s.name))
		default:
			others = append(others, fmt.Sprintf("%q", s.name))
		}
	}
	what := "nothing needs it"
	if len(takers) == 0 { // or else they are checked there
		p.Bool(producerTunes)
		for _, param := range t.Parameters {
			if param.Name != producerTunes {
				p.Int(param.Name)
			}
		}
	} else {
		what = strings.Join(takers, ", ") + " does its work, with its parameters and defaults"
	}
	l.info(e.node, e.path, "%s is not needed here: %s", t.Name, what)
	if len(others) > 0 && e.params != nil {
		l.warn(e.params, e.path+".parameters", "are not those of %s, which has its own: block sizes that differ find nothing in common", strings.Join(others, ", "))
	}
}

// withProducer returns the entry of a prefix scorer without parameters with those of
// the text's data producer, if there is one; any other entry as it is.
func (l *loader) withProducer(e *pluginEntry) *pluginEntry {
	if e.typ != PrefixScorerType || e.params != nil {
		return e
	}
	for _, p := range l.doc.plugins {
		if p.typ == producerType {
			with := *e
			with.params, with.completes = p.params, true
			if p.params != nil {
				with.path = p.path // faults belong where the parameters are
			}
			return &with
		}
	}
	return e
}

// completed fills in the producer's own defaults.
func completed(parametersJSON []byte) []byte {
	given := map[string]json.RawMessage{}
	if len(parametersJSON) > 0 && json.Unmarshal(parametersJSON, &given) != nil {
		return parametersJSON
	}
	has := func(names ...string) bool {
		for key := range given {
			for _, n := range names {
				if strings.EqualFold(key, n) {
					return true
				}
			}
		}
		return false
	}
	var add []string
	if !has(producerTunes) {
		add = append(add, fmt.Sprintf("%q:true", producerTunes))
	}
	if !has(producerTokens, "blockSize", "hashBlockSize") {
		add = append(add, fmt.Sprintf("%q:%d", producerTokens, producerBlock))
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(string(parametersJSON), "{"), "}")
	if inner != "" {
		add = append([]string{inner}, add...)
	}
	return []byte("{" + strings.Join(add, ",") + "}")
}

// noHitType is the scorer type that looks into the same index as the prefix scorer.
const noHitType = "no-hit-lru-scorer"

// blockKeys are the parameters that say how prompts are cut into blocks.
func blockKeys() []string {
	return []string{
		"hashBlockSize", "blockSize", producerTokens, producerTunes, "maxPrefixBlocksToMatch", "maxPrefixTokensToMatch", "lruCapacityPerServer",
	}
}

// likePrefixScorer gives a scorer that looks into the index, and does not say how
// prompts are cut into blocks, what the text's first prefix scorer says: otherwise each
// prompt would be hashed, sent and remembered twice.
func (l *loader) likePrefixScorer(e *pluginEntry, parametersJSON []byte) []byte {
	own := objectOf(parametersJSON)
	var like map[string]json.RawMessage
	for _, p := range l.doc.plugins {
		if p.typ != PrefixScorerType {
			continue
		}
		from := l.withProducer(p)
		faults := len(l.faults)
		text := l.compactJSON(from.params, from.path+".parameters")
		l.faults = l.faults[:faults] // they are the prefix scorer's
		if from.completes {
			text = completed(text)
		}
		like = objectOf(text)
		break
	}
	add := map[string]json.RawMessage{}
	for key, value := range like {
		for _, k := range blockKeys() {
			if strings.EqualFold(key, k) {
				add[k] = value
			}
		}
	}
	for key := range own {
		for _, k := range blockKeys() {
			if strings.EqualFold(key, k) {
				return parametersJSON // it says so itself
			}
		}
	}
	if len(add) == 0 {
		return parametersJSON
	}
	for key, value := range own {
		add[key] = value
	}
	text, err := json.Marshal(add)
	if err != nil { // cannot happen with what was JSON
		return parametersJSON
	}
	l.info(e.node, e.path, "%q cuts prompts into blocks as %s does", e.name, PrefixScorerType)
	return text
}

// objectOf reads a JSON object; nil if it is none.
func objectOf(text []byte) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if len(text) == 0 || json.Unmarshal(text, &object) != nil {
		return nil
	}
	return object
}

// handlerGoesByPrefix returns a profile handler which goes by what the prefix scorer of
// the profile says, in words; "" if none does.
func (l *loader) handlerGoesByPrefix(name string) string {
	for _, in := range l.instances {
		h, ok := in.plugin.(*profile.Disagg)
		if ok && h.Config().Decode == name && profile.GoesByPrefix(h.Config().PrefillDecider) {
			return fmt.Sprintf("%s of %q", h.Config().PrefillDecider.Name(), in.name)
		}
	}
	return ""
}

// neededPrefixScorer returns a prefix scorer for a profile that has a filter which
// goes by one and has none; nil if nothing is missing.
func (l *loader) neededPrefixScorer(e *profileEntry, p *route.Profile) *instance {
	needed := l.handlerGoesByPrefix(p.Name)
	for _, f := range p.Filters {
		if _, goesBy := f.(route.ScoredFilter); goesBy {
			needed = fmt.Sprintf("filter %q", f.Name())
		}
	}
	if needed == "" {
		return nil
	}
	for _, s := range p.Scorers {
		if s.Type == PrefixScorerType {
			return nil
		}
	}
	l.info(e.node, join(e.path, "plugins"), "%s goes by %s, which profile %q lacks; it is asked with weight 0", needed, PrefixScorerType, e.name)
	for _, in := range l.instances {
		if in.typ == PrefixScorerType && !in.faulty {
			in.used = true
			return in
		}
	}
	return l.fillIn(PrefixScorerType)
}
