package app

import (
	"context"
	"errors"
	"flag"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/bench/internal/record"
	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"record", "--help"}} {
		if err := Run(context.Background(), args, io.Discard); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{"replay"}, {"record", "--rounds", "0"}, {"record", "--endpoints", "1,x"}, {"record", "x"}, {"record", "--compare", "a"}} {
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
