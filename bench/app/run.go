package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// command is one of the commands.
type command struct {
	name, words string
	run         func(ctx context.Context, args []string, stdout io.Writer) error
}

func commands() []command {
	return []command{
		{"record", "measure the table of record, and compare placements of scorers", recordCommand},
		{"extproc", "measure what an endpoint picker adds to Envoy", gatewayCommand},
		{"scale", "measure what more routers, scorers and endpoints cost, and fit formulas to it", scaleCommand},
		{"fleet", "run fake model servers", runFleet},
		{"floor", "run an external processor that only echoes", runFloor},
		{"nats", "run a NATS server", runNATS},
	}
}

// Run runs a command.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	all := commands()
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fmt.Fprintln(stdout, "usage: bench COMMAND [flags]; bench COMMAND --help tells of the flags")
		for _, c := range all {
			fmt.Fprintf(stdout, "  %-8s %s\n", c.name, c.words)
		}
		return flag.ErrHelp
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout)
		}
	}
	return run.UsageError{Err: fmt.Errorf("no command %q", args[0])}
}

// parse reads flags and refuses arguments.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case err == flag.ErrHelp: //nolint:errorlint // it is returned as it is
		fs.SetOutput(stdout)
		fs.Usage()
		return err
	case err != nil:
		return run.UsageError{Err: err}
	case fs.NArg() > 0:
		return run.UsageError{Err: fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	}
	return nil
}

// numbers reads "10,100,500".
func numbers(text string) ([]int, error) {
	var all []int
	for _, w := range strings.Split(text, ",") {
		var n int
		if _, err := fmt.Sscanf(w, "%d", &n); err != nil || fmt.Sprint(n) != w {
			return nil, fmt.Errorf("%q is no list of numbers", text)
		}
		all = append(all, n)
	}
	return all, nil
}
