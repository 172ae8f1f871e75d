package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	"github.com/pointsman/pointsman/internal/kit/run"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// headerFlags collects -H "name: value".
type headerFlags []*routerv1.Header

func (h *headerFlags) String() string { return "" }

func (h *headerFlags) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	if !ok {
		return fmt.Errorf("header %q: want \"name: value\"", s)
	}
	*h = append(*h, &routerv1.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	return nil
}

func explain(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("explain", flag.ContinueOnError)
	r := routerFlags(fs)
	var headers headerFlags
	file := fs.String("f", "", "`file` with the request's body, as a client would send it; - for standard input")
	path := fs.String("path", "", "HTTP `path` of the request; if none, the body's shape decides")
	fs.Var(&headers, "H", "request `header`, as \"name: value\"; may be given several times")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	body, err := readBody(*file)
	if err != nil {
		return err
	}
	c, conn, err := r.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := c.Explain(ctx, &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Path: *path, Headers: headers, Body: body}})
	if err != nil {
		return r.asked(err)
	}
	if done, err := r.emit(stdout, m, true); done {
		return err
	}
	text.Clean(m)
	if why := m.GetBodyNotUnderstood(); why != "" {
		fmt.Fprintf(stdout, "the body was not understood: %s; without a prompt, load alone decides\n", why)
	}
	printDecision(stdout, m.GetDecision())
	return nil
}

func readBody(file string) ([]byte, error) {
	switch file {
	case "":
		return nil, run.UsageError{Err: fmt.Errorf("explain: -f FILE is missing: the body of the request to explain")}
	case "-":
		return io.ReadAll(os.Stdin)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	return body, nil
}

// printDecision prints a decision with every candidate.
func printDecision(stdout io.Writer, d *routerv1.Decision) {
	dry := ""
	if d.GetDryRun() {
		dry = " (dry run)"
	}
	fmt.Fprintf(stdout, "model %s, about %d prompt tokens, %d endpoints, decided in %s%s\n", text.OrDash(d.GetModel()), d.GetPromptTokenCount(), d.GetEndpointCount(), text.Since(d.GetElapsed()), dry)
	if d.GetClientModel() != "" {
		fmt.Fprintf(stdout, "model %s took the place of %s\n", d.GetModel(), d.GetClientModel())
	}
	printAdmission(stdout, d.GetAdmission())
	for _, p := range d.GetProfiles() {
		printProfile(stdout, p)
	}
	switch {
	case d.GetError() != "":
		fmt.Fprintf(stdout, "\nno pick: %s\n", d.GetError())
	default:
		fmt.Fprintf(stdout, "\npick %s", d.GetEndpoint().GetAddress())
		if len(d.GetFallbacks()) > 0 {
			var then []string
			for _, f := range d.GetFallbacks() {
				then = append(then, f.GetAddress())
			}
			fmt.Fprintf(stdout, ", else %s", strings.Join(then, ", "))
		}
		fmt.Fprintln(stdout)
		printStages(stdout, d)
	}
}

// printStages prints what other endpoints do than the pick, and why they do not.
func printStages(stdout io.Writer, d *routerv1.Decision) {
	if d.GetSendAddress() != "" {
		fmt.Fprintf(stdout, "sent to %s, which passes it on\n", d.GetSendAddress())
	}
	for _, s := range d.GetStages() {
		fmt.Fprintln(stdout, text.Stage(s))
	}
	for _, s := range d.GetSkippedStages() {
		fmt.Fprintf(stdout, "%s by the pick itself: %s\n", s.GetStage(), text.Skipped(s))
	}
}

// printAdmission prints whether the request is let in, and by what.
func printAdmission(stdout io.Writer, a *routerv1.Admission) {
	if a == nil {
		return
	}
	verdict, class := "let in", "never turned away"
	if a.GetShed() {
		verdict = "turned away"
	}
	if a.GetSheddable() {
		class = "can be turned away: " + a.GetSheddableBecause()
	}
	fmt.Fprintf(stdout, "%s: priority %d, %s", verdict, a.GetPriority(), class)
	if a.Saturation != nil {
		full := "not full"
		if a.GetSaturated() {
			full = "full"
		}
		fmt.Fprintf(stdout, "; %s says %.2f, %s", a.GetDetector(), a.GetSaturation(), full)
	}
	fmt.Fprintln(stdout)
}

func printProfile(stdout io.Writer, p *routerv1.ProfileDecision) {
	fmt.Fprintf(stdout, "\nprofile %s, %s\n", p.GetProfile(), p.GetPicker())
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "  ENDPOINT\tTOTAL")
	for _, s := range p.GetScorers() {
		fmt.Fprintf(w, "\t%s × %g", s.GetPlugin(), s.GetWeight())
	}
	fmt.Fprintln(w, "\tIN FLIGHT\tWAITING\tRUNNING\tKV USED\tAGE")
	best := ""
	if len(p.GetPicked()) > 0 {
		best = p.GetPicked()[0].GetEndpointId()
	}
	for _, c := range p.GetCandidates() {
		mark := " "
		if c.GetEndpoint().GetEndpointId() == best {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s", mark, c.GetEndpoint().GetAddress())
		if c.GetDroppedBy() != "" {
			fmt.Fprintf(w, "\tdropped\tby %s%s", c.GetDroppedBy(), strings.Repeat("\t", max(0, len(p.GetScorers())-1)))
		} else {
			fmt.Fprintf(w, "\t%.3f", c.GetTotal())
			for _, s := range c.GetScores() {
				fmt.Fprintf(w, "\t%s", scoreCell(s))
			}
		}
		fmt.Fprintf(w, "\t%d\t%s\t%s\t%s\t%s\n", c.GetInFlightRequestCount(), text.Number(c.WaitingRequestCount), text.Number(c.RunningRequestCount), text.Share(c.KvCacheUsageRatio), text.Since(c.GetLoadAge()))
	}
	w.Flush()
	for _, s := range p.GetScorers() {
		line := fmt.Sprintf("  %s (%s): %s in %s", s.GetPlugin(), s.GetScorer(), text.Verdict(s.GetVerdict()), text.Since(s.GetElapsed()))
		if s.GetStateAge() != nil {
			line += ", oldest state " + text.Since(s.GetStateAge())
		}
		if s.GetReason() != "" {
			line += ": " + s.GetReason()
		}
		fmt.Fprintln(stdout, line)
	}
	if p.GetTieBreak() != "" {
		fmt.Fprintf(stdout, "  tie: %s\n", p.GetTieBreak())
	}
	if p.GetError() != "" {
		fmt.Fprintf(stdout, "  error: %s\n", p.GetError())
	}
}

// scoreCell prints one score: the raw one, the scorer's words, or that it had no
// opinion and which value stood in.
func scoreCell(s *routerv1.CandidateScore) string {
	cell := fmt.Sprintf("%.3f", s.GetRaw())
	switch {
	case s.GetAbstained():
		cell += " (no opinion)"
	case s.GetText() != "":
		cell += " (" + s.GetText() + ")"
	}
	return cell
}
