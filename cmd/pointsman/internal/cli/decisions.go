package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func watchDecisions(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("decisions", flag.ContinueOnError)
	r := routerFlags(fs)
	follow := fs.Bool("f", false, "follow: print decisions as they are made, until interrupted")
	past := fs.Uint("n", 20, "so many past `decisions` first, at most 1000")
	full := fs.Bool("candidates", false, "show every candidate of new decisions, not only the pick")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	c, conn, err := r.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := c.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{PastCount: uint32(min(*past, 1000)), IncludeCandidates: *full, PastOnly: !*follow}) //nolint:gosec // bounded
	if err != nil {
		return r.asked(err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return r.asked(err)
		}
		if done, err := r.emit(stdout, m.GetDecision(), false); done {
			if err != nil {
				return err
			}
			continue
		}
		text.Clean(m)
		if m.GetDroppedCount() > 0 {
			fmt.Fprintf(stdout, "… %d decisions were made too fast to show\n", m.GetDroppedCount())
		}
		if *full {
			printDecision(stdout, m.GetDecision())
			continue
		}
		fmt.Fprintln(stdout, text.Decision(m.GetDecision()))
	}
}
