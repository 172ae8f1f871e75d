package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/run"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func (*fake) GetConfigStatus(context.Context, *routerv1.GetConfigStatusRequest) (*routerv1.GetConfigStatusResponse, error) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return &routerv1.GetConfigStatusResponse{
		RouterId: "router-h-1", Source: "/etc/epp/epp.yaml", LoadTime: timestamppb.New(at), LoadCount: 3, Reload: "when the file changes, and on SIGHUP", EffectiveText: "kind: EndpointPickerConfig\n",
		Warnings: []*routerv1.ConfigNotice{{Source: "/etc/epp/epp.yaml", Line: 11, Column: 3, Path: "plugins[3]", Message: "it has no effect"}},
		LastRefused: &routerv1.RefusedConfig{RefuseTime: timestamppb.New(at.Add(time.Minute)), Faults: []*routerv1.ConfigNotice{
			{Source: "/etc/epp/epp.yaml", Line: 2, Message: "the text is not YAML"}, {Source: "/etc/epp/epp.yaml", Message: "it is too long"},
		}},
	}, nil
}

// CheckConfig is a router that serves everything.
func (*fake) CheckConfig(_ context.Context, in *routerv1.CheckConfigRequest) (*routerv1.CheckConfigResponse, error) {
	weight := 2.0
	return &routerv1.CheckConfigResponse{EffectiveText: in.GetText(), Plugins: []*routerv1.ConfigPlugin{
		{Name: "green", Type: "acme-carbon", Role: "scorer", Service: "acme", ParametersJson: `{"region":"x"}`, Profiles: []*routerv1.ProfileUse{{Profile: "default", Weight: &weight}}},
		{Name: "max-score-picker", Type: "max-score-picker", Role: "picker", ParametersJson: `{"maxNumOfEndpoints":3}`, FilledIn: true, Profiles: []*routerv1.ProfileUse{{Profile: "default"}}},
	}}, nil
}

func TestWhatConfigCommandsPrint(t *testing.T) {
	_, address := startFake(t)
	for _, tc := range []struct {
		name string
		args []string
		err  string // in the error, one part a line
	}{
		{"config-help", []string{"help"}, ""},
		{"config-check", []string{"check", "good.yaml"}, ""},
		{"config-check-json", []string{"check", "-o", "json", "good.yaml"}, ""},
		{"config-check-bad", []string{"check", "bad.yaml"}, "bad.yaml:6:19: plugins[0].parameters.hashBlockSiz: unknown key; did you mean hashBlockSize?\nbad.yaml:11:9: plugins[3].type: unknown plug-in type"},
		{"config-check-bad-json", []string{"check", "bad.yaml", "-o", "json"}, "bad.yaml has 2 faults"},
		{"config-check-own", []string{"check", "own.yaml"}, `own.yaml:4:10: plugins[0].type: unknown plug-in type: no scorer serves type "acme-carbon"`},
		{"config-check-let-through", []string{"check", "own.yaml", "--scorer-types", "acme-carbon,other"}, ""},
		{"config-check-router", []string{"check", "own.yaml", "--router", address}, ""},
		{"config-print", []string{"print", "good.yaml"}, ""},
		{"config-explain", []string{"explain", "good.yaml"}, ""},
		{"config-explain-router", []string{"explain", "own.yaml", "--router", address}, ""},
		{"config-explain-bad", []string{"explain", "bad.yaml"}, "bad.yaml:6:19: "},
		{"config-import", []string{"import", "higress", "lb.yaml"}, ""},
		{"config-import-bad", []string{"import", "higress", "lb-bad.yaml"}, "lb-bad.yaml:4:3: lb_config.metricsPath: least_busy has no such field"},
		{"config-check-higress", []string{"check", "lb.yaml"}, ""},
		{"config-status", []string{"status", "--router", address}, "the router's newest configuration was refused, with 2 faults"},
		{"config-status-json", []string{"status", "--router", address, "-o", "json"}, ""},
		{"config-status-effective", []string{"status", "--router", address, "--effective"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			golden, err := filepath.Abs(filepath.Join("testdata", tc.name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(filepath.Join("testdata", "config"))
			var out bytes.Buffer
			err = Run(context.Background(), append([]string{"config"}, tc.args...), &out)
			switch {
			case tc.err == "" && err != nil:
				t.Fatal(err)
			case tc.err != "" && err == nil:
				t.Fatalf("no error, want %q", tc.err)
			}
			for part := range strings.Lines(tc.err) {
				if !strings.Contains(err.Error(), strings.TrimSpace(part)) {
					t.Errorf("error %v, want %q", err, part)
				}
			}
			var usage run.UsageError
			if errors.As(err, &usage) {
				t.Errorf("%v is a usage error", err)
			}
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestConfigSchemaIsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := Run(context.Background(), []string{"config", "schema"}, &out); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(out.Bytes(), &schema); err != nil || schema.Title != "EndpointPickerConfig" {
		t.Errorf("title %q, error %v", schema.Title, err)
	}
}

func TestFaultsOfTheConfigCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no command":      {nil, "which command", true},
		"unknown command": {[]string{"explode"}, `"explode"`, true},
		"no file":         {[]string{"check"}, "want one FILE, got 0", true},
		"two files":       {[]string{"check", "a", "b"}, "want one FILE, got 2", true},
		"unknown flag":    {[]string{"print", "a", "--nope"}, "nope", true},
		"format":          {[]string{"check", "a", "-o", "xml"}, "xml", true},
		"import of what":  {[]string{"import", "a"}, "higress FILE", true},
		"no such file":    {[]string{"check", "/does/not/exist"}, "/does/not/exist", false},
		"schema of what":  {[]string{"schema", "x"}, `"x"`, true},
		"nobody there":    {[]string{"status", "--router", "127.0.0.1:1"}, "127.0.0.1:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(context.Background(), append([]string{"config"}, tc.args...), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one that names %s", err, tc.want)
			}
			var usage run.UsageError
			if errors.As(err, &usage) != tc.usage {
				t.Errorf("%v: usage error %t, want %t", err, !tc.usage, tc.usage)
			}
		})
	}
}
