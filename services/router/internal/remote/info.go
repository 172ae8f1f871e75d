package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const maxTypes = 256 // that one service may serve

// info is what a replica said of itself, in a form that can be asked.
type info struct {
	name, version string
	streams       bool // ScoreStream is there
	references    bool // Score accepts table references
	outcomes      bool // ReportOutcomes is there
	explains      bool
	follows       bool // it follows the broadcast by itself
	types         []string
}

// readInfo holds a GetScorerInfo answer against the contract.
func readInfo(m *scorerv1.GetScorerInfoResponse) (*info, error) {
	has := func(c scorerv1.Capability) bool { return slices.Contains(m.GetCapabilities(), c) }
	in := &info{
		name: m.GetName(), version: m.GetVersion(),
		streams:    has(scorerv1.Capability_CAPABILITY_STREAM),
		references: has(scorerv1.Capability_CAPABILITY_TABLE_REFERENCE),
		outcomes:   has(scorerv1.Capability_CAPABILITY_OUTCOMES),
		explains:   has(scorerv1.Capability_CAPABILITY_EXPLAIN),
		follows:    has(scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST),
	}
	switch {
	case !goodName(in.name):
		return nil, fmt.Errorf("its name %q is not lower-case letters, digits and \"-\"", cut(in.name))
	case in.version == "":
		return nil, errors.New("it has no version")
	case len(m.GetTypes()) == 0:
		return nil, errors.New("it serves no scorer type")
	case len(m.GetTypes()) > maxTypes:
		return nil, fmt.Errorf("it serves %d scorer types, more than %d", len(m.GetTypes()), maxTypes)
	}
	in.version = cut(in.version)
	for _, t := range m.GetTypes() {
		for _, name := range append([]string{t.GetName()}, t.GetAliases()...) {
			if !goodName(name) {
				return nil, fmt.Errorf("its scorer type %q is not lower-case letters, digits and \"-\"", cut(name))
			}
			if in.serves(name) {
				return nil, fmt.Errorf("it serves scorer type %q twice", name)
			}
			in.types = append(in.types, name)
		}
	}
	slices.Sort(in.types)
	return in, nil
}

func (in *info) serves(typ string) bool {
	return slices.Contains(in.types, typ)
}

// maxWords bounds what a scorer says that is shown or logged, in bytes.
const maxWords = 300

// cut shortens what a stranger sent to what may be shown.
func cut(s string) string {
	if len(s) > maxWords {
		s = s[:maxWords] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), "")
}
