package epconfig

import (
	"errors"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Deps are what a text is loaded with.
type Deps struct {
	// Scorers resolves scorer plug-ins. REQUIRED.
	Scorers Scorers
	// Registry is the types of the router itself. Nil: BuiltIn().
	Registry *Registry
}

// Loaded is a text that loaded.
type Loaded struct {
	// Config is what routing goes by.
	Config *route.Config
	// Warnings are what is probably not meant, in the order of the text.
	Warnings []Notice
	// Infos are what was filled in and what does not need to be configured here.
	Infos []Notice
	// Effective is the configuration as YAML with nothing left out. Loading it
	// gives the same Config and the same Effective. Where a scorer did not tell what
	// its parameters come to, they are as given, and a comment says so.
	Effective []byte
	// Given is Effective without what scorers told, so that it is the same wherever the
	// text is loaded, and whether or not scorers are there.
	Given []byte
	// Plugins are its plug-ins in order, those that were filled in last.
	Plugins []Plugin
}

// Plugin is one plug-in of a configuration.
type Plugin struct {
	// Name and Type are the instance's.
	Name, Type string
	// Role is its part.
	Role Role
	// Service is the scorer service that it lives in. Empty: the router itself.
	Service string
	// Summary says what it does. Empty for scorers: their service says it.
	Summary string
	// Parameters are its parameters as JSON with defaults filled in, where its scorer
	// tells them. Empty: none.
	Parameters []byte
	// FilledIn is true if the text does not name it.
	FilledIn bool
}

// Load makes a configuration of a text named source. A text without content, nil
// included, stands for DefaultText, with a warning. The error is a Faults, or says
// that deps is incomplete.
func Load(source string, text []byte, deps Deps) (*Loaded, error) {
	if deps.Scorers == nil {
		return nil, errors.New("load configuration: no way to resolve scorers")
	}
	if deps.Registry == nil {
		deps.Registry = BuiltIn()
	}
	r := &report{source: source}
	root, empty := r.parse(text)
	if empty {
		r.warn(nil, "", "the configuration is empty; the built-in default is used")
		r.source = DefaultName
		root, _ = r.parse([]byte(DefaultText))
	}
	if root == nil {
		return nil, r.err()
	}
	d := r.document(root)
	l := &loader{report: r, deps: deps, doc: d, byName: map[string]*instance{}}
	l.instantiate()
	l.buildProfiles()
	l.teach()
	l.chooseHandler()
	l.sections()
	l.findUnused()
	if err := r.err(); err != nil {
		return nil, err
	}
	effective, err := l.effective(true)
	if err != nil {
		return nil, err
	}
	given, err := l.effective(false)
	if err != nil {
		return nil, err
	}
	return &Loaded{
		Config:   &route.Config{Name: source, Handler: l.handler, Profiles: l.profiles, Detector: l.detector},
		Warnings: inOrder(r.warnings), Infos: inOrder(r.infos),
		Effective: effective, Given: given, Plugins: l.pluginList(),
	}, nil
}

// loader makes the parts of a configuration from its document.
type loader struct {
	*report
	deps      Deps
	doc       *document
	instances []*instance          // in order; those filled in last
	byName    map[string]*instance // those of the text
	declared  []string             // names of the text's plug-ins; nil until somebody asks
	profiles  []*route.Profile
	contents  [][]member // of each profile, for Effective
	handler   route.Handler
	detector  route.Detector
	// detectorText is the section of the detector, as JSON.
	detectorText []byte
}

// member is one plug-in of a profile.
type member struct {
	instance *instance
	weight   float64 // of scorers
}
