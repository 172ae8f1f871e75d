package reference

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	prefixindexer "github.com/pointsman/pointsman/services/prefix-indexer/app"
	router "github.com/pointsman/pointsman/services/router/app"
	scorerkv "github.com/pointsman/pointsman/services/scorer-kv/app"
	scorerqueue "github.com/pointsman/pointsman/services/scorer-queue/app"
)

// Plugin is a plug-in type.
type Plugin struct {
	// Type is what `type:` says, and Aliases are other names of it.
	Type    string
	Aliases []string
	// Role is its part: "filter", "scorer", "picker", …
	Role string
	// Service is the scorer service that it lives in. Empty: the router.
	Service string
	// Scorer is true for a type of the router that a scorer of the same name goes
	// with.
	Scorer bool
	// Summary says what it does, in one paragraph.
	Summary string
	// Parameters are what it takes.
	Parameters []Parameter
}

// Parameter is one parameter of a plug-in type.
type Parameter struct {
	// Name is its spelling.
	Name string
	// Default is its default as JSON. Empty: none.
	Default string
	// Range says what it may be, as far as that can be said in figures.
	Range string
	// Summary says what it is.
	Summary string
	// Required is true if there is no plug-in without it.
	Required bool
	// schema is its JSON Schema.
	schema []byte
}

// Services are the contract servers of the first-party scorer services, by which
// configurations can be checked.
func Services() ([]scorerv1.ScorerServiceServer, error) {
	var all []scorerv1.ScorerServiceServer
	for _, published := range []func() (scorerv1.ScorerServiceServer, error){scorerqueue.Published, scorerkv.Published, prefixindexer.Published} {
		s, err := published()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Catalogue is all plug-in types, by role and name.
type Catalogue struct{ plugins []Plugin }

// NewCatalogue asks the router and the first-party scorer services what they have.
func NewCatalogue(ctx context.Context) (*Catalogue, error) {
	c := &Catalogue{}
	for _, t := range router.PluginTypes() {
		p := Plugin{Type: t.Name, Role: string(t.Role), Scorer: t.Scores, Summary: t.Summary}
		for _, param := range t.Parameters {
			made, err := localParameter(param.Name, param.Default, param.Summary, param.Schema)
			if err != nil {
				return nil, fmt.Errorf("parameters of %s: %w", p.Type, err)
			}
			made.Required = param.Required
			p.Parameters = append(p.Parameters, made)
		}
		c.plugins = append(c.plugins, p)
	}
	services, err := Services()
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		info, err := s.GetScorerInfo(ctx, &scorerv1.GetScorerInfoRequest{})
		if err != nil {
			return nil, fmt.Errorf("get scorer info: %w", err)
		}
		for _, t := range info.GetTypes() {
			p := Plugin{Type: t.GetName(), Aliases: t.GetAliases(), Role: "scorer", Service: info.GetName(), Summary: t.GetDescription()}
			if p.Parameters, err = schemaParameters(t.GetParametersSchema()); err != nil {
				return nil, fmt.Errorf("parameters of %s: %w", p.Type, err)
			}
			c.plugins = append(c.plugins, p)
		}
	}
	slices.SortStableFunc(c.plugins, func(a, b Plugin) int {
		return cmp.Or(cmp.Compare(rank(a.Role), rank(b.Role)), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Type, b.Type))
	})
	return c, nil
}

// rank orders roles as a request meets them; what has no part in a profile comes last.
func rank(role string) int {
	if i := slices.Index([]string{"profile handler", "filter", "scorer", "picker"}, role); i >= 0 {
		return i
	}
	if role == builtInRole {
		return 100
	}
	return 50
}

// Plugins returns all types, by role and name.
func (c *Catalogue) Plugins() []Plugin { return c.plugins }

// Plugin finds a type by its name or an alias, and the service that it lives in; empty
// for the router.
func (c *Catalogue) Plugin(typ, service string) (Plugin, bool) {
	for _, p := range c.plugins {
		if p.Service == service && (p.Type == typ || slices.Contains(p.Aliases, typ)) {
			return p, true
		}
	}
	return Plugin{}, false
}

// Where says where a plug-in runs.
func (p Plugin) Where() string {
	switch {
	case p.Service != "":
		return p.Service
	case p.Scorer:
		return "router, with the scorer of the same name"
	}
	return "router"
}

// Paragraph says what the plug-in does, and what its parameters are: those in values,
// as JSON by name in any case, and otherwise the defaults.
func (p Plugin) Paragraph(values map[string]string) string {
	var b strings.Builder
	b.WriteString(p.Summary)
	for _, param := range p.Parameters {
		value, given := lookup(values, param.Name)
		switch {
		case given:
		case param.Default != "":
			value = param.Default
		default:
			continue
		}
		fmt.Fprintf(&b, " %s is %s: %s", param.Name, value, lowerFirst(param.Summary))
	}
	return b.String()
}

func lookup(values map[string]string, name string) (string, bool) {
	for k, v := range values {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// lowerFirst takes the capital off a sentence, unless its first word is an acronym.
func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && (s[1] < 'A' || s[1] > 'Z') {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}
