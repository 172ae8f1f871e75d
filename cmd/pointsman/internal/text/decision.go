package text

import (
	"fmt"
	"strings"
	"time"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// Decision prints a decision in one line: when, what, where to, and the points that
// decided it.
func Decision(d *routerv1.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-24s ~%5d tok  ", d.GetDecideTime().AsTime().Local().Format("15:04:05.000"), d.GetModel(), d.GetPromptTokenCount())
	if d.GetError() != "" {
		fmt.Fprintf(&b, "no pick: %s", d.GetError())
		return b.String()
	}
	fmt.Fprintf(&b, "→ %-21s", d.GetEndpoint().GetAddress())
	for _, s := range d.GetStages() {
		fmt.Fprintf(&b, "  %s %s", s.GetStage(), addresses(s.GetEndpoints(), " and "))
	}
	for _, s := range d.GetSkippedStages() {
		fmt.Fprintf(&b, "  no %s (%s)", s.GetStage(), s.GetReason())
	}
	for _, p := range d.GetProfiles() {
		name := ""
		if len(d.GetProfiles()) > 1 {
			name = p.GetProfile() + " "
		}
		if p.GetError() != "" {
			fmt.Fprintf(&b, "  %s%s", name, p.GetError())
			continue
		}
		fmt.Fprintf(&b, "  %s%.2f =", name, p.GetTotal())
		for i, s := range p.GetScorers() {
			plus := ""
			if i > 0 {
				plus = " +"
			}
			if s.PickedScore == nil {
				fmt.Fprintf(&b, "%s %s %s", plus, s.GetPlugin(), Verdict(s.GetVerdict()))
				continue
			}
			fmt.Fprintf(&b, "%s %s %.2f×%g", plus, s.GetPlugin(), s.GetPickedScore(), s.GetWeight())
		}
		if p.GetCorrected() {
			b.WriteString(" + picks made meanwhile")
		}
		if p.GetTieBreak() != "" {
			fmt.Fprintf(&b, "  (tie: %s)", p.GetTieBreak())
		}
	}
	fmt.Fprintf(&b, "  in %s", Short(d.GetElapsed().AsDuration().Round(time.Microsecond)))
	return b.String()
}
