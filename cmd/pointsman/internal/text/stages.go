package text

import (
	"fmt"
	"strings"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// Stage is what other endpoints do for a request: "prefill at a:1, else b:1".
func Stage(s *routerv1.Stage) string {
	out := s.GetStage() + " at " + addresses(s.GetEndpoints(), " and ")
	if len(s.GetFallbacks()) > 0 {
		out += ", else " + addresses(s.GetFallbacks(), ", ")
	}
	return out
}

// Skipped is why a stage is done by the endpoint that decodes, in a line.
func Skipped(s *routerv1.SkippedStage) string {
	out := s.GetReason()
	if s.GetText() != "" {
		out += ": " + s.GetText()
	}
	switch {
	case s.PromptTokenCount == nil:
	case s.CachedTokenCount == nil:
		out += fmt.Sprintf(" (%d tokens)", s.GetPromptTokenCount())
	default:
		out += fmt.Sprintf(" (%d of %d tokens cached)", s.GetCachedTokenCount(), s.GetPromptTokenCount())
	}
	return out
}

func addresses(all []*routerv1.PickedEndpoint, sep string) string {
	var list []string
	for _, e := range all {
		list = append(list, e.GetAddress())
	}
	return strings.Join(list, sep)
}
