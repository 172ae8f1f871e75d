package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/scale"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// scaleOutput says where results of scale go, and where they come from if nothing is measured.
type scaleOutput struct {
	output
	page, from string
}

// scaleFlags reads the command line of scale.
func scaleFlags(args []string, stdout io.Writer) (scale.Config, scaleOutput, error) {
	cfg := scale.DefaultConfig()
	var out scaleOutput
	fs := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	fs.StringVar(&cfg.Binaries, "bin", "bin", "`DIR` of the services' binaries")
	fs.StringVar(&out.dir, "out", "", "`DIR` for NAME.md and NAME.json; none: standard output alone")
	fs.StringVar(&out.name, "name", "scale", "`NAME` of the results")
	fs.StringVar(&out.page, "page", "", "`FILE` in which the tables between marks are written anew, such as docs/scaling.md")
	fs.StringVar(&out.from, "from", "", "`FILE`.json of an earlier run, to which formulas are fitted again; nothing is measured")
	fs.Float64Var(&cfg.Rate, "rate", cfg.Rate, "picks per second of the open loop, over all routers")
	fs.IntVar(&cfg.Streams, "streams", cfg.Streams, "under way at once in a closed loop, over all routers")
	fs.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "of each case")
	window := fs.Duration("window", cfg.Open, "of a round")
	fs.BoolVar(&cfg.LargePages, "largePages", cfg.LargePages, "metrics pages of 50 KB, as real servers have")
	fs.Func("env", "`NAME=VALUE` for all that is measured, such as GOGC=400; may be given again", func(s string) error {
		cfg.Env = append(cfg.Env, s)
		return nil
	})
	if err := parse(fs, args, stdout); err != nil {
		return cfg, out, err
	}
	cfg.Idle, cfg.Open, cfg.Closed = *window, *window, *window
	var errs []error
	var err error
	if cfg.Self, err = os.Executable(); err != nil {
		errs = append(errs, fmt.Errorf("find this program: %w", err))
	}
	if err := errors.Join(append(errs, cfg.Validate())...); err != nil {
		return cfg, out, run.UsageError{Err: err}
	}
	return cfg, out, nil
}

// scaleCommand measures, fits formulas, writes both and fails if an answer was wrong.
func scaleCommand(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, out, err := scaleFlags(args, stdout)
	if err != nil {
		return err
	}
	r := &scale.Report{}
	if out.from != "" {
		err = readScale(out.from, r)
	} else {
		err = measureScale(ctx, cfg, args, r)
	}
	if err != nil {
		return err
	}
	r.Fit()
	fmt.Fprintln(stdout, r.Markdown())
	if out.dir != "" {
		if err := r.Write(out.dir, out.name); err != nil {
			return err
		}
	}
	if n, why := r.Failures(); n > 0 {
		return fmt.Errorf("%d answers were missing or wrong: %v", n, why)
	}
	if out.page != "" {
		return r.Refresh(out.page)
	}
	return nil
}

func readScale(file string, r *scale.Report) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read an earlier run: %w", err)
	}
	if err := json.Unmarshal(b, r); err != nil {
		return fmt.Errorf("read an earlier run: %s: %w", file, err)
	}
	return nil
}

func measureScale(ctx context.Context, cfg scale.Config, args []string, r *scale.Report) (err error) {
	began := time.Now()
	cfg.Log = progress(began)
	r.Taken, r.Command, r.Version, r.Machine = began, strings.Join(append([]string{"bench", "scale"}, args...), " "), version(ctx), procstat.Describe()
	r.Notes = []string{
		fmt.Sprintf("streams spread over all routers; open: %.0f picks/s (Poisson, latency from the intended start); closed: %d streams, which saturate the machine; %d rounds of %v, each with every mesh started anew", cfg.Rate, cfg.Streams, cfg.Rounds, cfg.Open),
		fmt.Sprintf("load generator and model servers on the same machine, not counted; metrics pages of real size: %t; environment: %v", cfg.LargePages, cfg.Env),
		fmt.Sprintf("routers wait up to %v for scores, so that no pick goes without because the machine is full", scale.ScoringTimeout),
		"NATS: messages and bytes of its monitoring page, the bytes without subjects and protocol",
	}
	r.Rows, err = scale.Run(ctx, cfg)
	return err
}
