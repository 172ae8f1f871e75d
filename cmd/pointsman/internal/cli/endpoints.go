package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func endpoints(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("endpoints", flag.ContinueOnError)
	r := routerFlags(fs)
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	c, conn, err := r.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := c.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
	if err != nil {
		return r.asked(err)
	}
	if done, err := r.emit(stdout, m, true); done {
		return err
	}
	printEndpoints(stdout, text.Clean(m))
	return nil
}

func printEndpoints(stdout io.Writer, m *routerv1.ListEndpointsResponse) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENDPOINT\tENGINE\tWAITING\tRUNNING\tKV USED\tIN FLIGHT\tAGE\tMODELS\tSTATE")
	for _, e := range m.GetEndpoints() {
		state := "ok"
		switch {
		case e.GetQuarantineReason() != "":
			state = "quarantined: " + e.GetQuarantineReason()
		case e.GetLoadAge() == nil:
			state = "never scraped"
		case e.GetStale():
			state = "stale"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", e.GetEndpoint().GetAddress(), text.OrDash(e.GetEngine()), text.Number(e.WaitingRequestCount), text.Number(e.RunningRequestCount),
			text.Share(e.KvCacheUsageRatio), e.GetInFlightRequestCount(), text.Since(e.GetLoadAge()), text.OrDash(strings.Join(e.GetModels(), ",")), state)
	}
	w.Flush()
	if a := m.GetStateAge(); a != nil {
		fmt.Fprintf(stdout, "%d endpoints, table %s, a collector was heard %s ago\n", len(m.GetEndpoints()), m.GetTableDigest(), text.Since(a))
	} else {
		fmt.Fprintln(stdout, "no collector was ever heard: is a metrics-collector of this pool running?")
	}
}
