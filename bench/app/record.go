package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/record"
	"github.com/pointsman/pointsman/bench/internal/report"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// output says where results go.
type output struct{ dir, name string }

// recordFlags reads the command line of record.
func recordFlags(args []string, stdout io.Writer) (record.Config, output, error) {
	cfg := record.DefaultConfig()
	for _, a := range args {
		if a == "--quick" || a == "-quick" {
			cfg = record.QuickConfig()
		}
	}
	var out output
	var endpoints, bodies, placements string
	fs := flag.NewFlagSet("bench record", flag.ContinueOnError)
	fs.Bool("quick", false, "a run of less than 2 minutes, for comparisons within it; other flags still hold")
	fs.StringVar(&cfg.Binaries, "bin", "bin", "`DIR` of the services' binaries")
	fs.StringVar(&out.dir, "out", "", "`DIR` for NAME.md and NAME.json; none: standard output alone")
	fs.StringVar(&out.name, "name", "record", "`NAME` of the results")
	fs.StringVar(&endpoints, "endpoints", "", "sizes of pools, such as 10,100,500")
	fs.StringVar(&bodies, "bodies", "", "sizes of requests in bytes, such as 1024,8192")
	fs.StringVar(&placements, "placements", "", "of scorers, to be compared: tcp,unix,unary,embedded; \"none\" for none")
	fs.IntVar(&cfg.Streams, "streams", cfg.Streams, "under way at once in a closed loop")
	fs.Float64Var(&cfg.Rate, "rate", cfg.Rate, "picks per second of the open loop")
	fs.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "of each case")
	fs.DurationVar(&cfg.Window, "window", cfg.Window, "of a round of the closed loop")
	fs.DurationVar(&cfg.OpenWindow, "openWindow", cfg.OpenWindow, "of a round of the open loop")
	fs.DurationVar(&cfg.ScrapeInterval, "scrape", cfg.ScrapeInterval, "between two scrapes of an endpoint, in pools of up to 100; 1s at least above")
	fs.BoolVar(&cfg.LargePages, "largePages", cfg.LargePages, "metrics pages of 50 KB, as real servers have")
	fs.StringVar(&cfg.Profiles, "profiles", "", "`DIR` for a CPU profile of every process of each case, taken in a round more")
	fs.Func("env", "`NAME=VALUE` for all that is measured, such as GOGC=400; may be given again", func(s string) error {
		cfg.Env = append(cfg.Env, s)
		return nil
	})
	fs.Func("scorerEnv", "`NAME=VALUE` for scorers and NATS alone, such as GOMAXPROCS=1; may be given again", func(s string) error {
		cfg.ScorerEnv = append(cfg.ScorerEnv, s)
		return nil
	})
	fs.Func("compare", "`NAME=ADDRESS,PID,…`: another endpoint picker to measure in the same rounds; ADDRESS may begin with tls://", func(s string) error {
		o, err := parseOther(s)
		cfg.Others = append(cfg.Others, o)
		return err
	})
	if err := parse(fs, args, stdout); err != nil {
		return cfg, out, err
	}
	var errs []error
	list := func(text string, into *[]int) {
		if text == "" {
			return
		}
		cfg.Cells = nil
		all, err := numbers(text)
		errs = append(errs, err)
		*into = all
	}
	list(endpoints, &cfg.Endpoints)
	list(bodies, &cfg.Bodies)
	if placements != "" {
		cfg.Placements = nil
		for _, p := range strings.Split(placements, ",") {
			if p != "none" {
				cfg.Placements = append(cfg.Placements, mesh.Placement(p))
			}
		}
	}
	var err error
	if cfg.Self, err = os.Executable(); err != nil {
		errs = append(errs, fmt.Errorf("find this program: %w", err))
	}
	if err := errors.Join(append(errs, cfg.Validate())...); err != nil {
		return cfg, out, run.UsageError{Err: err}
	}
	return cfg, out, nil
}

// parseOther reads NAME=ADDRESS,PID,…
func parseOther(s string) (record.Other, error) {
	name, rest, ok := strings.Cut(s, "=")
	words := strings.Split(rest, ",")
	if !ok || name == "" || words[0] == "" {
		return record.Other{}, fmt.Errorf("%q is not NAME=ADDRESS,PID,…", s)
	}
	o := record.Other{Name: name, Address: words[0]}
	for _, w := range words[1:] {
		pid, err := strconv.Atoi(w)
		if err != nil || pid < 1 {
			return o, fmt.Errorf("%q is no process", w)
		}
		o.PIDs = append(o.PIDs, pid)
	}
	return o, nil
}

// progress returns what tells on standard error how a measurement goes on.
func progress(began time.Time) func(format string, a ...any) {
	return func(format string, a ...any) {
		fmt.Fprintf(os.Stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, a...)...)
	}
}

// recordCommand measures, writes the results and fails if a limit was not kept.
func recordCommand(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, out, err := recordFlags(args, stdout)
	if err != nil {
		return err
	}
	began := time.Now()
	cfg.Log = progress(began)
	rows, err := record.Run(ctx, cfg)
	if err != nil {
		return err
	}
	r := &report.Report{
		Taken: began, Command: strings.Join(append([]string{"bench", "record"}, args...), " "), Version: version(ctx), Machine: procstat.Describe(), Rows: rows,
		Notes: []string{
			fmt.Sprintf("%d streams in a closed loop or %.0f picks/s in an open one (Poisson, latency from the intended start), %d rounds of %v and %v; load generator, model servers and collector on the same machine, not counted", cfg.Streams, cfg.Rate, cfg.Rounds, cfg.Window, cfg.OpenWindow),
			fmt.Sprintf("every endpoint is scraped every %v up to 100 endpoints, every second above; metrics pages of real size: %t; environment: %v, of scorers and NATS also %v", cfg.ScrapeInterval, cfg.LargePages, cfg.Env, cfg.ScorerEnv),
		},
	}
	r.Table, r.Verdicts = record.Table(r), record.Judge(r)
	return finish(r, out, stdout)
}

// finish shows the results, writes them down, and fails if a limit was not kept.
func finish(r *report.Report, out output, stdout io.Writer) error {
	fmt.Fprintln(stdout, r.Markdown())
	if out.dir != "" {
		if err := r.Write(out.dir, out.name); err != nil {
			return err
		}
	}
	var errs []error
	for _, v := range r.Failed() {
		errs = append(errs, fmt.Errorf("%s: %.2f, at most %.2f", v.What, v.Value, v.Limit))
	}
	return errors.Join(errs...)
}

// version is that of the sources, as far as git tells.
func version(ctx context.Context) string {
	b, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
