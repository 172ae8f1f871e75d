package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/record"
	"github.com/pointsman/pointsman/bench/internal/report"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// gatewayFlags reads the command line of extproc.
func gatewayFlags(args []string, stdout io.Writer) (record.GatewayConfig, output, error) {
	cfg := record.DefaultGatewayConfig()
	var out output
	var endpoints, bodies string
	fs := flag.NewFlagSet("bench extproc", flag.ContinueOnError)
	fs.StringVar(&cfg.Binaries, "bin", "bin", "`DIR` of the services' binaries")
	fs.StringVar(&cfg.Envoy, "envoy", os.Getenv("ENVOY"), "Envoy's `FILE`; default: that of the environment variable ENVOY, or what the tests set up in .tools")
	fs.StringVar(&cfg.Bootstrap, "bootstrap", filepath.Join("deploy", "envoy", "original-dst.yaml"), "Envoy's configuration `FILE`")
	fs.StringVar(&out.dir, "out", "", "`DIR` for NAME.md and NAME.json; none: standard output alone")
	fs.StringVar(&out.name, "name", "extproc", "`NAME` of the results")
	fs.StringVar(&endpoints, "endpoints", "", "sizes of pools, such as 10,100,500")
	fs.StringVar(&bodies, "bodies", "", "sizes of requests in bytes, such as 1024,8192")
	fs.Float64Var(&cfg.Rate, "rate", cfg.Rate, "requests per second")
	fs.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "of each case")
	fs.DurationVar(&cfg.OpenWindow, "window", cfg.OpenWindow, "of a round")
	if err := parse(fs, args, stdout); err != nil {
		return cfg, out, err
	}
	var errs []error
	var err error
	if endpoints != "" {
		cfg.Endpoints, err = numbers(endpoints)
		errs = append(errs, err)
	}
	if bodies != "" {
		cfg.Bodies, err = numbers(bodies)
		errs = append(errs, err)
	}
	if cfg.Envoy == "" {
		cfg.Envoy = installed()
	}
	if cfg.Envoy == "" {
		errs = append(errs, errors.New("no Envoy: name it with --envoy, or let test/setup/ready.sh install it"))
	}
	if cfg.Self, err = os.Executable(); err != nil {
		errs = append(errs, fmt.Errorf("find this program: %w", err))
	}
	if err := errors.Join(append(errs, cfg.Validate())...); err != nil {
		return cfg, out, run.UsageError{Err: err}
	}
	return cfg, out, nil
}

// installed returns the Envoy that was installed for the tests; empty if there is none.
// A program of its own comes first: scripts in between would be accounted for too.
func installed() string {
	for _, pattern := range []string{".tools/*/lib/python*/site-packages/envoy/_bin/envoy", ".tools/bin/envoy"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// gatewayCommand measures what the picker adds to Envoy.
func gatewayCommand(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, out, err := gatewayFlags(args, stdout)
	if err != nil {
		return err
	}
	began := time.Now()
	cfg.Log = progress(began)
	rows, err := record.Gateway(ctx, cfg)
	if err != nil {
		return err
	}
	r := &report.Report{
		Taken: began, Command: strings.Join(append([]string{"bench", "extproc"}, args...), " "), Version: version(ctx), Machine: procstat.Describe(), Rows: rows,
		Notes: []string{fmt.Sprintf("HTTP/1.1 clients of Envoy (one worker), %.0f requests/s (Poisson, latency from the intended start to the last byte), %d rounds of %v; ext_proc over TLS, FULL_DUPLEX_STREAMED; model servers answer at once", cfg.Rate, cfg.Rounds, cfg.OpenWindow)},
	}
	r.Table, r.Verdicts = record.GatewayTable(r), record.Judge(r)
	return finish(r, out, stdout)
}
