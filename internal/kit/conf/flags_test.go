package conf_test

import (
	"bytes"
	"errors"
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestFlags(t *testing.T) {
	const helpText = `usage: scorer-kv [flags]

Flags:
  --config FILE
        read settings from FILE (YAML); unknown keys are refused
  --pool NAME
        serve pool NAME (default blue)
  --set KEY=VALUE
        override one setting, KEY=VALUE: dotted key, value in YAML, as in log.level=debug (repeatable)
`
	tests := []struct {
		name   string
		args   []string
		want   conf.Sources
		err    string
		stdout string
	}{
		{"none", nil, conf.Sources{}, "", ""},
		{"two dashes", []string{"--config", "x.yaml", "--set", "a=1", "--set=b=2"}, conf.Sources{File: "x.yaml", Sets: []string{"a=1", "b=2"}}, "", ""},
		{"one dash", []string{"-config=x.yaml", "-set", "a=1"}, conf.Sources{File: "x.yaml", Sets: []string{"a=1"}}, "", ""},
		{"unknown flag", []string{"--colour"}, conf.Sources{}, "flag provided but not defined: -colour; --help lists the flags", ""},
		{"flag without its value", []string{"--config"}, conf.Sources{}, "flag needs an argument: -config; --help lists the flags", ""},
		{"argument", []string{"start"}, conf.Sources{}, `unexpected argument "start"; --help lists the flags`, ""},
		{"help", []string{"--help"}, conf.Sources{}, "flag: help requested", helpText},
		{"short help", []string{"-h"}, conf.Sources{}, "flag: help requested", helpText},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := flag.NewFlagSet("scorer-kv", flag.ContinueOnError)
			got := conf.Flags(fs)
			fs.String("pool", "blue", "serve pool `NAME`")
			var stdout bytes.Buffer
			err := conf.ParseFlags(fs, tt.args, &stdout)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("error = %q, want %q", text, tt.err)
			}
			if _, ok := errors.AsType[run.UsageError](err); err != nil && ok == errors.Is(err, flag.ErrHelp) {
				t.Errorf("error is %T, want a run.UsageError exactly when it is not flag.ErrHelp", err)
			}
			if d := cmp.Diff(tt.stdout, stdout.String()); d != "" {
				t.Errorf("stdout (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.want, *got); tt.err == "" && d != "" {
				t.Errorf("sources (-want +got):\n%s", d)
			}
		})
	}
}
