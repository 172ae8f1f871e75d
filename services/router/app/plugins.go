package app

import "github.com/pointsman/pointsman/services/router/internal/epconfig"

// PluginTypes are the plug-in types of the router itself, by name.
func PluginTypes() []*epconfig.Type {
	r := epconfig.BuiltIn()
	var all []*epconfig.Type
	for _, name := range r.Names() {
		if t, ok := r.Type(name); ok {
			all = append(all, t)
		}
	}
	return all
}

// ConfigSections are the top-level fields of an EndpointPickerConfig besides
// apiVersion and kind.
func ConfigSections() []string { return epconfig.Sections() }

// MissingTypes are the plug-in types of newer endpoint pickers that no part of this
// version has.
func MissingTypes() []epconfig.Missing { return epconfig.BuiltIn().Missing() }

// APIVersions are what an EndpointPickerConfig may name as its apiVersion.
func APIVersions() []string { return []string{epconfig.APIVersion, epconfig.APIVersionLD} }

// FeatureGates are the feature gates that an EndpointPickerConfig may name.
func FeatureGates() []string { return epconfig.FeatureGates() }

// DefaultConfigText is the EndpointPickerConfig if none is given.
const DefaultConfigText = epconfig.DefaultText
