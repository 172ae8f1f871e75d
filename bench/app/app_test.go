package app

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/bench/internal/record"
	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"record", "--help"}, {"scale", "--help"}} {
		if err := Run(context.Background(), args, io.Discard); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{"replay"}, {"record", "--rounds", "0"}, {"record", "--endpoints", "1,x"}, {"record", "x"}, {"record", "--compare", "a"}, {"scale", "--rate", "0"}, {"scale", "x"}} {
		var usage run.UsageError
		if err := Run(context.Background(), args, io.Discard); !errors.As(err, &usage) {
			t.Errorf("%v: %v, want an error of usage", args, err)
		}
	}
}

func TestRecordFlags(t *testing.T) {
	cfg, out, err := recordFlags([]string{"--quick", "--rounds", "5", "--placements", "none", "--compare", "epp=tls://127.0.0.1:9,12,13", "--out", "d"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	quick := record.QuickConfig()
	if cfg.Rounds != 5 || cfg.Window != quick.Window || len(cfg.Cells) != len(quick.Cells) || len(cfg.Placements) != 0 || out.dir != "d" {
		t.Errorf("%+v, %+v", cfg, out)
	}
	if diff := cmp.Diff([]record.Other{{Name: "epp", Address: "tls://127.0.0.1:9", PIDs: []int{12, 13}}}, cfg.Others); diff != "" {
		t.Error(diff)
	}
}

func TestScaleFlags(t *testing.T) {
	cfg, out, err := scaleFlags([]string{"--rounds", "5", "--window", "3s", "--out", "d", "--page", "p.md"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Rounds != 5 || cfg.Idle != 3*time.Second || cfg.Open != cfg.Idle || cfg.Closed != cfg.Idle || out.dir != "d" || out.name != "scale" || out.page != "p.md" {
		t.Errorf("%+v, %+v", cfg, out)
	}
}

// Formulas are fitted again to what was measured before, and an answer that was wrong then
// is wrong still.
func TestScaleFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "earlier.json")
	for name, tc := range map[string]struct{ text, word string }{
		"failures": {`{"rows": [{"load": "open", "failures": 2, "errors": {"no destination": 2}}]}`, "2 answers were missing or wrong: map[no destination:2]"},
		"no JSON":  {"{", file},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Run(context.Background(), []string{"scale", "--from", file}, io.Discard); err == nil || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var text strings.Builder
	if err := os.WriteFile(file, []byte(`{"command": "bench scale --x", "rows": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), []string{"scale", "--from", file}, &text); err != nil || !strings.Contains(text.String(), "`bench scale --x`") {
		t.Errorf("%v: %s", err, text.String())
	}
}
