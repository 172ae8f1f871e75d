package epconfig

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/admission"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const sectionSaturation = "saturationDetector"

// saturationDetector finds or makes the detector. Newer texts name a plug-in, whose
// verdict is a mean; older ones write the thresholds of the first generation's, which
// is also what there is without the section.
func (l *loader) saturationDetector() {
	m := l.mapping(l.doc.fields.get(sectionSaturation), sectionSaturation)
	if m == nil {
		return
	}
	thresholds := []string{"queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThreshold"}
	l.only(m, append([]string{treeRef}, thresholds...)...)
	own := slices.ContainsFunc(thresholds, func(key string) bool { return m.get(key) != nil })
	ref := m.get(treeRef)
	switch {
	case ref != nil && own:
		l.fault(ref, join(sectionSaturation, treeRef), "names a plug-in besides thresholds; write one or the other")
	case ref != nil:
		l.namedDetector(ref)
	default:
		p := &Params{
			report: l.report, typ: &Type{Name: sectionSaturation, Parameters: utilizationParameters()},
			node: m.node, path: sectionSaturation, values: map[string]*yaml.Node{},
		}
		for _, key := range thresholds {
			if n := m.get(key); n != nil {
				p.values[key] = n
			}
		}
		made := newUtilization(admission.UtilizationType, admission.DefaultUtilizationConfig(), p)
		if p.Failed() {
			return
		}
		p.used = slices.DeleteFunc(p.used, func(u [2]string) bool { return u[0] == "headroom" }) // of filters
		l.detector, l.detectorText = made, p.effective()
	}
}

// namedDetector takes the plug-in that the section names.
func (l *loader) namedDetector(ref *yaml.Node) {
	path := join(sectionSaturation, treeRef)
	l.reference(ref, path)
	in := l.byName[resolve(ref).Value]
	if in == nil || in.faulty {
		return // its fault is reported
	}
	d, ok := in.plugin.(route.Detector)
	if !ok {
		l.fault(ref, path, "plug-in %q is a %s (%s), which cannot tell whether endpoints are full; there is %s and %s",
			in.name, in.role, in.typ, admission.UtilizationType, admission.ConcurrencyType)
		return
	}
	l.detector = d
	l.detectorText, _ = json.Marshal(map[string]string{treeRef: in.name}) // strings do not fail
}

// detectorName is the plug-in that the section names, which then is no filter of its own
// accord; "" if it names none. What is wrong with the section is reported elsewhere.
func (l *loader) detectorName() string {
	var unread report
	m := unread.mapping(l.doc.fields.lookup(sectionSaturation), sectionSaturation)
	if m == nil {
		return ""
	}
	return unread.text(m.get(treeRef), treeRef)
}
