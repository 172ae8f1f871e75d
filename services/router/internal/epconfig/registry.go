package epconfig

import (
	"maps"
	"slices"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Role is the part that a plug-in plays in a profile.
type Role string

// Roles.
const (
	RoleFilter  Role = "filter"
	RoleScorer  Role = "scorer"
	RolePicker  Role = "picker"
	RoleHandler Role = "profile handler"
	// RoleDecider is that of plug-ins which a profile handler asks.
	RoleDecider Role = "disaggregation decider"
	// RoleElsewhere is that of types which newer endpoint pickers have plugged in
	// and which are built into a service here.
	RoleElsewhere Role = "built in"
)

// Type is a plug-in type that the router itself has.
type Type struct {
	// Name is what `type:` says.
	Name string
	// Role is its part.
	Role Role
	// Scores is true if a scorer type of the same name, with the same parameters, goes
	// with it, which lives in a service: the plug-in then has a weight.
	Scores bool
	// Summary says what it does, for people: one paragraph.
	Summary string
	// Parameters are all that it takes.
	Parameters []Parameter
	// New makes an instance: a route.Filter, route.Picker, route.Handler or
	// profile.Decider as its role says, or nil after reporting faults through p.
	New func(name string, p *Params) (any, error)
}

// Parameter is one parameter of a Type.
type Parameter struct {
	// Name is its spelling; configurations may use other cases.
	Name string
	// Default is its value if absent: an int, a float64, a string, a bool, or nil for
	// none.
	Default any
	// Summary says what it is and in which unit.
	Summary string
	// Schema is a JSON Schema of its value, for editors, besides what Default and
	// Summary say. Empty: a value of the default's kind.
	Schema string
	// Required is true if there is no plug-in without it.
	Required bool
}

// Registry is the plug-in types that the router itself has. It is immutable.
type Registry struct {
	types map[string]*Type
	later map[string]later
}

// BuiltIn returns the registry of this router.
func BuiltIn() *Registry {
	r := &Registry{types: map[string]*Type{}, later: laterTypes()}
	for _, kind := range [][]*Type{filterTypes(), labelTypes(), lengthTypes(), affinityTypes(), criticalTypes(), producerTypes(), saturationTypes(), pickerTypes(), handlerTypes(), deciderTypes(), elsewhereTypes()} {
		for _, t := range kind {
			r.types[t.Name] = t
		}
	}
	return r
}

// Type returns the type of that name, and false if the router has none.
func (r *Registry) Type(name string) (*Type, bool) {
	t, ok := r.types[name]
	return t, ok
}

// Names returns the names of all types, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.types)) }

// Later returns what the type is that newer endpoint pickers have and this router
// does not, and what comes nearest here, in words, empty if nothing does. It is false
// if the type is none of those.
func (r *Registry) Later(name string) (what, nearest string, ok bool) {
	l, ok := r.later[name]
	return l.what, l.nearest, ok
}

// Missing is a plug-in type of newer endpoint pickers that is not here.
type Missing struct {
	// Name is what `type:` says, What its part, and Nearest what comes nearest here, in
	// words; empty if nothing does.
	Name, What, Nearest string
}

// Missing returns the types that Later tells of, by name.
func (r *Registry) Missing() []Missing {
	var all []Missing
	for _, name := range slices.Sorted(maps.Keys(r.later)) {
		all = append(all, Missing{name, r.later[name].what, r.later[name].nearest})
	}
	return all
}

// Scorers resolves scorer plug-ins, whose types live in services.
type Scorers interface {
	// Types returns every scorer type that is known to be served, aliases included.
	Types() []string
	// Resolve checks an instance. parametersJSON is a compact JSON object, or empty
	// if the configuration has none. service, asked and failClosed are taken over
	// into the route.Scorer. An err may wrap several (Unwrap() []error); one that
	// has a ParameterKey() string method is reported at that parameter. An err about
	// a type that is not among Types says who might serve it. asked should be a Teller.
	Resolve(pluginName, scorerType string, parametersJSON []byte) (service string, asked any, failClosed bool, warnings []string, err error)
}

// Teller is implemented by what Scorers.Resolve returns to be asked, if the scorer can
// tell what parameters come to.
type Teller interface {
	// EffectiveParameters returns the parameters with defaults filled in: a JSON object
	// of which the scorer makes the same instance. Nil: it did not tell.
	EffectiveParameters() []byte
}

// Warner is implemented by what Scorers.Resolve returns to be asked, if its warnings may
// cease to hold.
type Warner interface {
	// Over says whether a warning that Resolve gave does not hold any more.
	Over(warning string) bool
}

// instance is a plug-in of the text, made.
type instance struct {
	entry  *pluginEntry // nil if it was filled in
	name   string
	role   Role
	typ    string
	plugin any          // nil for scorers, and after a fault
	scorer route.Scorer // without a weight
	params []byte       // effective, as JSON; as given if untold
	given  []byte       // params before its scorer was heard
	untold bool         // its scorer did not say what the parameters come to
	faulty bool
	used   bool // a profile or a decision tree refers to it
	inTree bool // a decision tree does
}
