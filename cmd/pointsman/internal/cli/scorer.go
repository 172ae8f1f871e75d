package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/pointsman/pointsman/conformance"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// contractPage is where the rules are told.
const contractPage = "https://github.com/pointsman/pointsman/blob/main/docs/scorer-contract.md"

// scorer runs one of the commands about one scorer.
func scorer(ctx context.Context, args []string, stdout io.Writer) error {
	all := []command{{"verify", "hold a scorer against the contract, docs/scorer-contract.md", verifyScorer}}
	if len(args) == 0 || isHelp(args[0]) {
		fmt.Fprint(stdout, "pointsman scorer COMMAND\n\nCommands:\n"+list(all)+"\npointsman scorer COMMAND --help shows a command's flags.\n")
		if len(args) == 0 {
			return run.UsageError{Err: fmt.Errorf("scorer: which command? one of: %s", names(all))}
		}
		return nil
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout)
		}
	}
	return run.UsageError{Err: fmt.Errorf("scorer: unknown command %q; one of: %s", args[0], names(all))}
}

// verification is the flags of scorer verify.
type verification struct {
	target, output string
	options        conformance.Options
	client         rpc.ClientConfig
}

// readVerification reads the command line.
func readVerification(args []string, stdout io.Writer) (*verification, error) {
	v := &verification{options: conformance.DefaultOptions(), client: rpc.DefaultClientConfig()}
	o := &v.options
	o.Labels, o.Headers = make(map[string][]string), make(map[string]string)
	fs := flag.NewFlagSet("scorer verify", flag.ContinueOnError)
	fs.StringVar(&v.output, "o", "text", "output `format`: text or json")
	fs.StringVar(&o.Type, "type", "", "the only scorer `type` to check")
	fs.Func("parameters", "parameters to give to it, as `JSON`", func(s string) error {
		o.Parameters = []byte(s)
		return nil
	})
	fs.Func("endpoint", "`id` of an endpoint that it knows, if it has no opinion on others; may be repeated", func(s string) error {
		o.Endpoints = append(o.Endpoints, s)
		return nil
	})
	fs.Func("label", "`name=value,value`: a label, and what endpoints have in turn; may be repeated", func(s string) error {
		name, values, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("want name=value,value")
		}
		o.Labels[name] = strings.Split(values, ",")
		return nil
	})
	fs.Func("header", "`name=value`: a header of the request; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("want name=value")
		}
		o.Headers[strings.ToLower(name)] = value
		return nil
	})
	fs.Func("check", "`id` of the only check to run, as its link ends; may be repeated", func(s string) error {
		o.Checks = append(o.Checks, s)
		return nil
	})
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "`time` that one call may take")
	fs.StringVar(&v.client.TLS.CAFile, "ca", "", "`file` with the certificates of the scorer's CA; turns TLS on")
	fs.StringVar(&v.client.TLS.CertFile, "cert", "", "client certificate `file`, for mutual TLS")
	fs.StringVar(&v.client.TLS.KeyFile, "key", "", "client key `file`, for mutual TLS")
	fs.StringVar(&v.client.TLS.ServerName, "server-name", "", "`name` that the scorer's certificate must have, if not the target")
	// The target may stand before the flags as well as behind them.
	var targets []string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		targets, args = append(targets, args[0]), args[1:]
	}
	if err := parseFlags(fs, " TARGET", args, stdout); err != nil {
		return nil, err
	}
	targets = append(targets, fs.Args()...)
	if len(targets) != 1 {
		return nil, run.UsageError{Err: fmt.Errorf("scorer verify: want one TARGET, HOST:PORT or unix:///PATH, got %d (see pointsman scorer verify --help)", len(targets))}
	}
	v.target = targets[0]
	if v.output != "text" && v.output != "json" {
		return nil, run.UsageError{Err: fmt.Errorf("-o %s: want text or json", v.output)}
	}
	if err := o.Validate(); err != nil {
		return nil, run.UsageError{Err: fmt.Errorf("scorer verify: %w", err)}
	}
	return v, nil
}

func verifyScorer(ctx context.Context, args []string, stdout io.Writer) error {
	v, err := readVerification(args, stdout)
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(v.target, v.client)
	if err != nil {
		return err
	}
	defer conn.Close()
	report, err := conformance.Verify(ctx, conn, v.options)
	if err != nil {
		return fmt.Errorf("scorer %s: %w", v.target, err)
	}
	if v.output == "json" {
		err = emitReport(stdout, v.target, report)
	} else {
		printReport(stdout, v.target, report)
	}
	if err == nil && !report.Conforms() {
		err = fmt.Errorf("scorer %s breaks %s of the contract", v.target, count(report.Count(conformance.Failed), "rule"))
	}
	return err
}

// reportJSON is a report for programs.
type reportJSON struct {
	Target   string       `json:"target"`
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Types    []string     `json:"types"`
	Conforms bool         `json:"conforms"`
	Results  []resultJSON `json:"results"`
}

type resultJSON struct {
	Check   string `json:"check"`
	Group   string `json:"group"`
	Type    string `json:"type,omitempty"`
	Level   string `json:"level"`
	Title   string `json:"title"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	Fix     string `json:"fix,omitempty"`
	Rule    string `json:"rule"`
}

func emitReport(stdout io.Writer, target string, r conformance.Report) error {
	m := reportJSON{Target: target, Name: r.Name, Version: r.Version, Types: r.Types, Conforms: r.Conforms()}
	for _, res := range r.Results {
		one := resultJSON{
			Check: res.Check.ID, Group: res.Check.Group, Type: res.Type, Level: string(res.Check.Level), Title: res.Check.Title,
			Outcome: string(res.Outcome), Reason: res.Reason, Rule: contractPage + "#" + res.Check.ID,
		}
		if res.Outcome == conformance.Failed || res.Outcome == conformance.Warned {
			one.Fix = res.Check.Fix
		}
		m.Results = append(m.Results, one)
	}
	e := json.NewEncoder(stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(m)
}
