package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func scorers(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("scorers", flag.ContinueOnError)
	r := routerFlags(fs)
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	c, conn, err := r.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := c.ListScorers(ctx, &routerv1.ListScorersRequest{})
	if err != nil {
		return r.asked(err)
	}
	if done, err := r.emit(stdout, m, true); done {
		return err
	}
	printScorers(stdout, text.Clean(m))
	return nil
}

func printScorers(stdout io.Writer, m *routerv1.ListScorersResponse) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCORER\tTARGET\tVERSION\tTYPES\tREADY\tTRANSPORT\tBREAKER\tCALLS\tFAILED\tLAST ERROR")
	for _, s := range m.GetScorers() {
		ready := 0
		for _, p := range s.GetReplicas() {
			if p.GetReady() {
				ready++
			}
		}
		last := text.Unknown
		if e := s.GetLastError(); e != "" {
			last = fmt.Sprintf("%s (%s ago)", e, text.Since(s.GetLastErrorAge()))
		} else if i := slices.IndexFunc(s.GetReplicas(), func(p *routerv1.ScorerReplica) bool { return p.GetReason() != "" }); i >= 0 {
			last = s.GetReplicas()[i].GetAddress() + ": " + s.GetReplicas()[i].GetReason()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%d\t%d\t%s\n", s.GetName(), s.GetTarget(), text.OrDash(s.GetVersion()), text.OrDash(strings.Join(s.GetScorerTypes(), ",")),
			ready, len(s.GetReplicas()), text.OrDash(s.GetTransport()), s.GetBreaker(), s.GetCallCount(), s.GetFailureCount(), last)
	}
	w.Flush()
}
