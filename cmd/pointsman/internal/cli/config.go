package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/reference"
	"github.com/pointsman/pointsman/internal/kit/run"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	routerapp "github.com/pointsman/pointsman/services/router/app"
)

func configCommands() []command {
	return []command{
		{"check", "say what is wrong with an EndpointPickerConfig file", checkConfig},
		{"print", "print it with nothing left out", printConfig},
		{"explain", "say what each of its plug-ins does", explainConfig},
		{"import", "turn a configuration of Higress's ai-load-balancer into an EndpointPickerConfig: import higress FILE", importConfig},
		{"schema", "print a JSON Schema of it, for editors", configSchema},
		{"status", "show what a router uses, and why a newer one was refused; then it exits with 1", configStatus},
	}
}

// config runs one of the commands about configurations.
func config(ctx context.Context, args []string, stdout io.Writer) error {
	all := configCommands()
	if len(args) == 0 || isHelp(args[0]) {
		fmt.Fprint(stdout, "pointsman config COMMAND\n\nCommands:\n"+list(all)+"\npointsman config COMMAND --help shows a command's flags. FILE - is standard input.\n")
		if len(args) == 0 {
			return run.UsageError{Err: fmt.Errorf("config: which command? one of: %s", names(all))}
		}
		return nil
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout)
		}
	}
	return run.UsageError{Err: fmt.Errorf("config: unknown command %q; one of: %s", args[0], names(all))}
}

// configFile is the flags of the commands that read a configuration file.
type configFile struct {
	*router
	path      string
	text      []byte
	asRouter  bool
	unchecked string
}

// readConfigFile reads the command line and the file that it names.
func readConfigFile(name string, args []string, stdout io.Writer) (*configFile, error) {
	fs := flag.NewFlagSet("config "+name, flag.ContinueOnError)
	f := &configFile{router: routerFlags(fs)}
	asks := fs.Lookup("router")
	asks.Usage, asks.DefValue = "gRPC `address` of a router that shall check it with the scorers that it has; without one, the types of this version are known", ""
	fs.StringVar(&f.unchecked, "scorer-types", "", "scorer `types` of your own services, with commas: let through without being checked")
	// The file may stand before the flags as well as behind them.
	var files []string
	if len(args) > 0 && (args[0] == "-" || !strings.HasPrefix(args[0], "-")) {
		files, args = append(files, args[0]), args[1:]
	}
	if err := parseFlags(fs, " FILE", args, stdout); err != nil {
		return nil, err
	}
	files = append(files, fs.Args()...)
	if len(files) != 1 {
		return nil, run.UsageError{Err: fmt.Errorf("config %s: want one FILE, got %d (see pointsman config %s --help)", name, len(files), name)}
	}
	if err := f.format(); err != nil {
		return nil, err
	}
	fs.Visit(func(given *flag.Flag) { f.asRouter = f.asRouter || given.Name == "router" })
	var err error
	f.path, f.text, err = readText(files[0])
	return f, err
}

// readText reads a configuration, from standard input if path is "-". name is what
// notices call it.
func readText(path string) (name string, text []byte, err error) {
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, 2<<20))
		return "stdin", text, err
	}
	text, err = os.ReadFile(path)
	return path, text, err
}

// check has the file checked: by a router, if one is named, or here.
func (f *configFile) check(ctx context.Context) (*routerv1.CheckConfigResponse, error) {
	if !f.asRouter {
		services, err := reference.Services()
		if err != nil {
			return nil, err
		}
		return routerapp.CheckConfig(ctx, f.path, f.text, services, types(f.unchecked))
	}
	c, conn, err := f.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	m, err := c.CheckConfig(ctx, &routerv1.CheckConfigRequest{Source: f.path, Text: string(f.text)})
	if err != nil {
		return nil, f.asked(err)
	}
	return m, nil
}

func types(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// faulty is why a configuration would be refused, one fault a line; nil if it is good.
func faulty(m *routerv1.CheckConfigResponse) error {
	var all []error
	for _, n := range m.GetFaults() {
		all = append(all, errors.New(notice(n)))
	}
	return errors.Join(all...)
}

// notice writes a notice as compilers do.
func notice(n *routerv1.ConfigNotice) string {
	var b strings.Builder
	b.WriteString(n.GetSource())
	if n.GetLine() > 0 {
		fmt.Fprintf(&b, ":%d", n.GetLine())
		if n.GetColumn() > 0 {
			fmt.Fprintf(&b, ":%d", n.GetColumn())
		}
	}
	b.WriteString(": ")
	if n.GetPath() != "" {
		b.WriteString(n.GetPath() + ": ")
	}
	return b.String() + n.GetMessage()
}
