package reference

import (
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/knobs"
	router "github.com/pointsman/pointsman/services/router/app"
)

// builtInRole is that of types which are accepted and have nothing to do.
const builtInRole = "built in"

// Service is a service's configuration file on the page.
type Service struct {
	// Title and Intro are what stands above its keys.
	Title, Intro string
	// Knobs are its keys.
	Knobs []knobs.Knob
}

// Page writes the reference page: the plug-ins, the router's flags as its --help shows
// them, and the keys of the services.
func (c *Catalogue) Page(flags string, services []Service) []byte {
	b := &strings.Builder{}
	b.WriteString(pageHead)
	role := ""
	for _, p := range c.plugins {
		if p.Role != role {
			role = p.Role
			fmt.Fprintf(b, "\n## %s\n", roleTitle(role))
			if role == builtInRole {
				b.WriteString("\n| type | |\n|---|---|\n")
			}
		}
		p.section(b)
	}
	b.WriteString("\n## Not here\n\nPlug-in types of newer endpoint pickers that are not here are a fault when the configuration is loaded, which names the nearest that there is. " +
		"Nothing predicts latency here, so whatever goes by predictions is among them. A scorer service of your own may serve these names.\n\n| type | what it is | nearest here |\n|---|---|---|\n")
	for _, m := range router.MissingTypes() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", m.Name, cell(m.What), cell(m.Nearest))
	}
	fmt.Fprintf(b, "\n## Defaults\n\nWithout `--configFile` and `--configText`, this is used:\n\n```yaml\n%s```\n", defaultText())
	fmt.Fprintf(b, "\n# Flags of the router\n\n```\n%s```\n", flags)
	for _, s := range services {
		s.section(b)
	}
	return []byte(b.String())
}

func (p Plugin) section(b *strings.Builder) {
	if p.Role == builtInRole {
		fmt.Fprintf(b, "| `%s` | %s |\n", p.Type, cell(p.Summary))
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", p.Type)
	if len(p.Aliases) > 0 {
		fmt.Fprintf(b, "Also called `%s`. ", strings.Join(p.Aliases, "`, `"))
	}
	fmt.Fprintf(b, "Runs in: %s. %s\n\n%s\n", p.Where(), origin(p.Type), p.Summary)
	if len(p.Parameters) == 0 {
		b.WriteString("\nParameters: none.\n")
		return
	}
	b.WriteString("\n| parameter | default | values | |\n|---|---|---|---|\n")
	for _, param := range p.Parameters {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", param.Name, code(param.Default), cell(param.Range), cell(param.Summary))
	}
}

func (s Service) section(b *strings.Builder) {
	fmt.Fprintf(b, "\n# %s\n\n%s\n\n| key | value | default | |\n|---|---|---|---|\n", s.Title, s.Intro)
	for _, k := range s.Knobs {
		if k.As != "" {
			fmt.Fprintf(b, "| `%s` | section | | %s |\n", k.Key, cell(strings.TrimSpace(k.Comment+" The same keys as in `"+k.As+"`.")))
			continue
		}
		if k.See != "" {
			fmt.Fprintf(b, "| `%s` | section | | %s |\n", k.Key, cell(strings.TrimSpace(k.Comment+" See "+link(k.See)+".")))
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Key, cell(k.Kind), code(k.Default), cell(k.Comment))
	}
}

// link links to a title on the page.
func link(title string) string {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return -1
	}, strings.ToLower(title))
	return fmt.Sprintf("[%s](#%s)", title, anchor)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell makes a text fit for a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

func roleTitle(role string) string {
	switch role {
	case builtInRole:
		return "Accepted, and built in here"
	case "profile handler":
		return "Profile handlers"
	}
	return strings.ToUpper(role[:1]) + role[1:] + "s"
}
