package cli

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/run"
	routerapp "github.com/pointsman/pointsman/services/router/app"
)

// importConfig prints the EndpointPickerConfig that a foreign configuration comes to, with
// what is to know as comments, so that the output can be kept as it is.
func importConfig(_ context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("config import", flag.ContinueOnError)
	if err := parseFlags(fs, " higress FILE", args, stdout); err != nil {
		return err
	}
	if fs.NArg() != 2 || fs.Arg(0) != "higress" {
		return run.UsageError{Err: fmt.Errorf("config import: want higress FILE (see pointsman config import --help)")}
	}
	path, text, err := readText(fs.Arg(1))
	if err != nil {
		return err
	}
	m := routerapp.ImportHigress(path, text)
	if err := faulty(m); err != nil {
		return err
	}
	for _, n := range m.GetWarnings() {
		fmt.Fprintln(stdout, "# warning: "+notice(n))
	}
	for _, n := range m.GetInfos() {
		fmt.Fprintln(stdout, "# note: "+notice(n))
	}
	fmt.Fprint(stdout, m.GetEffectiveText())
	return nil
}
