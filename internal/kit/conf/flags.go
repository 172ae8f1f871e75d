package conf

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// Sources is where a configuration comes from: the arguments of [Load].
type Sources struct {
	File string   // --config; empty: none
	Sets []string // --set, in order
}

// Flags registers --config FILE and --set KEY=VALUE (repeatable) on fs, and a help text that lists all flags of fs.
// The result is filled when fs is parsed, best with [ParseFlags].
func Flags(fs *flag.FlagSet) *Sources {
	s := new(Sources)
	fs.StringVar(&s.File, "config", "", "read settings from `FILE` (YAML); unknown keys are refused")
	fs.Func("set", "override one setting, `KEY=VALUE`: dotted key, value in YAML, as in log.level=debug (repeatable)", func(v string) error {
		s.Sets = append(s.Sets, v)
		return nil
	})
	fs.Usage = func() { help(fs) }
	return s
}

// ParseFlags parses args, which must be flags only. A fault is returned as a [run.UsageError] of one line and nothing is
// printed for it; for --help the help text is printed on stdout and flag.ErrHelp is returned.
func ParseFlags(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	usage := fs.Usage
	fs.Usage = func() {} // the flag package would print it after an error as well
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.Usage = usage
	fs.SetOutput(stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if usage != nil {
			usage()
		} else {
			help(fs)
		}
		return flag.ErrHelp
	case err != nil:
		return run.UsageError{Err: fmt.Errorf("%w; --help lists the flags", err)}
	case fs.NArg() > 0:
		return run.UsageError{Err: fmt.Errorf("unexpected argument %q; --help lists the flags", fs.Arg(0))}
	}
	return nil
}

func help(fs *flag.FlagSet) {
	w := fs.Output()
	fmt.Fprintf(w, "usage: %s [flags]\n\nFlags:\n", fs.Name())
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		fmt.Fprintln(w, strings.TrimRight("  --"+f.Name+" "+value, " "))
		fmt.Fprintf(w, "        %s", text)
		if d := f.DefValue; d != "" && d != "false" && d != "0" {
			fmt.Fprintf(w, " (default %s)", d)
		}
		fmt.Fprintln(w)
	})
}
