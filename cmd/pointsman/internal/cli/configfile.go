package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/reference"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func checkConfig(ctx context.Context, args []string, stdout io.Writer) error {
	f, err := readConfigFile("check", args, stdout)
	if err != nil {
		return err
	}
	m, err := f.check(ctx)
	if err != nil {
		return err
	}
	if done, err := f.emit(stdout, m, true); done {
		if err == nil && len(m.GetFaults()) > 0 {
			err = fmt.Errorf("%s has %s", f.path, count(len(m.GetFaults()), "fault"))
		}
		return err
	}
	for _, n := range m.GetWarnings() {
		fmt.Fprintln(stdout, "warning: "+notice(n))
	}
	for _, n := range m.GetInfos() {
		fmt.Fprintln(stdout, "note: "+notice(n))
	}
	if err := faulty(m); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is good: %s, %s\n", f.path, count(len(m.GetPlugins()), "plug-in"), count(len(m.GetWarnings()), "warning"))
	return nil
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func printConfig(ctx context.Context, args []string, stdout io.Writer) error {
	f, err := readConfigFile("print", args, stdout)
	if err != nil {
		return err
	}
	m, err := f.check(ctx)
	if err != nil {
		return err
	}
	if err := faulty(m); err != nil {
		return err
	}
	if done, err := f.emit(stdout, m, true); done {
		return err
	}
	fmt.Fprint(stdout, m.GetEffectiveText())
	return nil
}

func explainConfig(ctx context.Context, args []string, stdout io.Writer) error {
	f, err := readConfigFile("explain", args, stdout)
	if err != nil {
		return err
	}
	m, err := f.check(ctx)
	if err != nil {
		return err
	}
	if err := faulty(m); err != nil {
		return err
	}
	if done, err := f.emit(stdout, m, true); done {
		return err
	}
	catalogue, err := reference.NewCatalogue(ctx)
	if err != nil {
		return err
	}
	for i, p := range m.GetPlugins() {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if err := explainPlugin(stdout, catalogue, p); err != nil {
			return err
		}
	}
	return nil
}

func explainPlugin(stdout io.Writer, catalogue *reference.Catalogue, p *routerv1.ConfigPlugin) error {
	title := p.GetName()
	if p.GetName() != p.GetType() {
		title += ", a " + p.GetType()
	}
	known, ok := catalogue.Plugin(p.GetType(), p.GetService())
	if !ok {
		known, ok = catalogue.Plugin(p.GetType(), "")
	}
	where := p.GetService()
	if ok {
		where = known.Where()
	}
	fmt.Fprintf(stdout, "%s (%s, in %s)%s\n", title, p.GetRole(), where, uses(p))
	values := map[string]string{}
	if p.GetParametersJson() != "" {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(p.GetParametersJson()), &raw); err != nil {
			return fmt.Errorf("parameters of %q: %w", p.GetName(), err)
		}
		for k, v := range raw {
			values[k] = string(v)
		}
	}
	text := "What it does is for its service to say: it is not one of Pointsman's own."
	if ok {
		text = known.Paragraph(values)
	}
	for line := range wrapped(text, 98) {
		fmt.Fprintln(stdout, "  "+line)
	}
	return nil
}

// uses says where a plug-in works.
func uses(p *routerv1.ConfigPlugin) string {
	var parts []string
	for _, u := range p.GetProfiles() {
		part := "profile " + u.GetProfile()
		if u.Weight != nil {
			part += fmt.Sprintf(" with weight %g", u.GetWeight())
		}
		parts = append(parts, part)
	}
	out := ""
	if parts != nil {
		out = ": " + strings.Join(parts, ", ")
	}
	if p.GetFilledIn() {
		out += " [filled in]"
	}
	return out
}

// wrapped breaks a text into lines of at most width letters, if its words allow.
func wrapped(text string, width int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		line, letters := "", 0
		for _, word := range strings.Fields(text) {
			n := len([]rune(word))
			if line != "" && letters+1+n > width {
				if !yield(line) {
					return
				}
				line, letters = "", 0
			}
			if line != "" {
				line, letters = line+" ", letters+1
			}
			line, letters = line+word, letters+n
		}
		if line != "" {
			yield(line)
		}
	}
}

func configSchema(ctx context.Context, args []string, stdout io.Writer) error {
	if err := parse(flag.NewFlagSet("config schema", flag.ContinueOnError), args, stdout); err != nil {
		return err
	}
	catalogue, err := reference.NewCatalogue(ctx)
	if err != nil {
		return err
	}
	schema, err := catalogue.Schema()
	if err != nil {
		return err
	}
	_, err = stdout.Write(schema)
	return err
}

func configStatus(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("config status", flag.ContinueOnError)
	r := routerFlags(fs)
	effective := fs.Bool("effective", false, "print the configuration in use, with nothing left out, and nothing else")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	c, conn, err := r.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := c.GetConfigStatus(ctx, &routerv1.GetConfigStatusRequest{})
	if err != nil {
		return r.asked(err)
	}
	if done, err := r.emit(stdout, m, true); done {
		return err
	}
	if m.GetLoadTime() == nil {
		return errors.New("the router has no configuration in use yet: it is starting")
	}
	if *effective {
		fmt.Fprint(stdout, m.GetEffectiveText())
		return nil
	}
	printConfigStatus(stdout, m)
	if faults := m.GetLastRefused().GetFaults(); len(faults) > 0 {
		return fmt.Errorf("the router's newest configuration was refused, with %s", count(len(faults), "fault"))
	}
	return nil
}

const timeFormat = "2006-01-02 15:04:05"

func printConfigStatus(stdout io.Writer, m *routerv1.GetConfigStatusResponse) {
	fmt.Fprintf(stdout, "router %s uses %s since %s (loaded %s)\nread again: %s\n", m.GetRouterId(), m.GetSource(),
		m.GetLoadTime().AsTime().Local().Format(timeFormat), count(int(m.GetLoadCount()), "time"), m.GetReload()) //nolint:gosec // a count
	for _, n := range m.GetWarnings() {
		fmt.Fprintln(stdout, "warning: "+notice(n))
	}
	if refused := m.GetLastRefused(); refused != nil {
		fmt.Fprintf(stdout, "a newer one was refused at %s:\n", refused.GetRefuseTime().AsTime().Local().Format(timeFormat))
		for _, n := range refused.GetFaults() {
			fmt.Fprintln(stdout, "  "+notice(n))
		}
	}
}
