package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/up"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// command is one of the things that pointsman does.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, stdout io.Writer) error
}

func commands() []command {
	return []command{
		{"up", "run everything on this machine, with simulated model servers", up.Run},
		{"serve", "run a router with the built-in scorers within", serve},
		{"explain", "show how a request would be routed now, and why", explain},
		{"endpoints", "list the endpoints that a router knows, with their loads", endpoints},
		{"scorers", "list the scorers that a router asks, with their health", scorers},
		{"scorer", "check a scorer of your own against the contract", scorer},
		{"decisions", "list the newest decisions; -f follows", watchDecisions},
		{"config", "check, print and explain configurations; show a router's", config},
	}
}

// Run finds the command named by the first argument and runs it with the others.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	all := commands()
	if len(args) == 0 || isHelp(args[0]) {
		fmt.Fprint(stdout, usage(all))
		if len(args) == 0 {
			return run.UsageError{Err: fmt.Errorf("which command? one of: %s", names(all))}
		}
		return nil
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout)
		}
	}
	return run.UsageError{Err: fmt.Errorf("unknown command %q; one of: %s", args[0], names(all))}
}

func isHelp(arg string) bool { return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg) }

func names(all []command) string {
	var ns []string
	for _, c := range all {
		ns = append(ns, c.name)
	}
	return strings.Join(ns, ", ")
}

func usage(all []command) string {
	var b strings.Builder
	b.WriteString("pointsman picks which model server answers each LLM request.\n\nCommands:\n")
	b.WriteString(list(all))
	b.WriteString("\npointsman COMMAND --help shows a command's flags.\n")
	return b.String()
}

// list writes commands one a line.
func list(all []command) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.summary)
	}
	return b.String()
}

// parse reads the flags of a command that has nothing else.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	if err := parseFlags(fs, "", args, stdout); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return run.UsageError{Err: fmt.Errorf("%s: unexpected argument %q (see pointsman %s --help)", fs.Name(), fs.Arg(0), fs.Name())}
	}
	return nil
}

// parseFlags reads a command's flags; operands is what its help shows behind them.
func parseFlags(fs *flag.FlagSet, operands string, args []string, stdout io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	if err == nil {
		return nil
	}
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(stdout)
		fmt.Fprintf(stdout, "usage: pointsman %s [flags]%s\n\nFlags:\n", fs.Name(), operands)
		fs.PrintDefaults()
		return err
	}
	return run.UsageError{Err: fmt.Errorf("%s: %w (see pointsman %s --help)", fs.Name(), err, fs.Name())}
}
