package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/run"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// sloppy is a scorer that forgets one candidate of several, has no health, and
// has a name that would redraw the screen.
type sloppy struct {
	scorerv1.UnimplementedScorerServiceServer
}

func (sloppy) GetScorerInfo(context.Context, *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	return &scorerv1.GetScorerInfoResponse{Name: "sloppy\x1b[2J", Version: "1", Types: []*scorerv1.ScorerType{{Name: "sloppy"}, {Name: "other"}}}, nil
}

func (sloppy) ValidateParameters(_ context.Context, req *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	if len(req.GetParametersJson()) > 0 {
		return &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{{Key: "k", Message: "there are no parameters"}}}, nil
	}
	return &scorerv1.ValidateParametersResponse{Needs: &scorerv1.InputNeeds{}}, nil
}

func (sloppy) Score(_ context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	n := len(req.GetListed().GetCandidates())
	if n == 0 {
		return nil, status.Error(codes.Unimplemented, "no tables")
	}
	return &scorerv1.ScoreResponse{Scores: make([]float32, max(1, n-1))}, nil
}

func startSloppy(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	scorerv1.RegisterScorerServiceServer(s, sloppy{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func TestWhatScorerVerifyPrints(t *testing.T) {
	address := startSloppy(t)
	for _, tc := range []struct {
		name   string
		args   []string
		breaks string
	}{
		{"scorer-verify", []string{"--type", "sloppy"}, "breaks 5 rules"},
		{"scorer-verify-json", []string{"--type", "sloppy", "-o", "json", "--check", "score-count", "--check", "score-range", "--check", "score-alias"}, "breaks 1 rule"},
		{"scorer-verify-good", []string{"--check", "info-constant", "--check", "score-range"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			err := Run(context.Background(), append([]string{"scorer", "verify", address}, tc.args...), &out)
			if (err != nil) != (tc.breaks != "") || err != nil && !strings.Contains(err.Error(), tc.breaks) {
				t.Errorf("error %v", err)
			}
			got := strings.ReplaceAll(out.String(), address, "TARGET")
			golden := filepath.Join("testdata", tc.name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFaultsOfScorerVerify(t *testing.T) {
	address := startSloppy(t)
	for name, tc := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no command":        {nil, "which command", true},
		"unknown command":   {[]string{"bless"}, `"bless"`, true},
		"no target":         {[]string{"verify"}, "TARGET", true},
		"two targets":       {[]string{"verify", address, "--type", "x", address}, "got 2", true},
		"format":            {[]string{"verify", address, "-o", "xml"}, "xml", true},
		"label":             {[]string{"verify", address, "--label", "zone"}, "name=value", true},
		"header":            {[]string{"verify", address, "--header", "=x"}, "name=value", true},
		"check":             {[]string{"verify", address, "--check", "nonsense"}, `"nonsense"`, true},
		"timeout":           {[]string{"verify", address, "--timeout", "0s"}, "timeout", true},
		"type":              {[]string{"verify", address, "--type", "x"}, `type "x" but sloppy, other`, false},
		"nobody there":      {[]string{"verify", "127.0.0.1:1", "--timeout", "2s"}, "127.0.0.1:1", false},
		"no such authority": {[]string{"verify", address, "--ca", "/does/not/exist"}, "/does/not/exist", false},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Run(context.Background(), append([]string{"scorer"}, tc.args...), &out)
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

func TestScorerHelp(t *testing.T) {
	for _, args := range [][]string{{"scorer", "--help"}, {"scorer", "verify", "--help"}} {
		var out bytes.Buffer
		err := Run(context.Background(), args, &out)
		if err != nil && !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "verify") {
			t.Errorf("%v printed %q, error %v", args, out.String(), err)
		}
	}
}

func TestScorerVerifyTakesWhatItIsGiven(t *testing.T) {
	v, err := readVerification([]string{"--label", "zone=a,b", "--label", "rack=1", "--header", "X-Zone=a", "--endpoint", "e1", "--endpoint", "e2", "--parameters", `{"k":1}`, "unix:///s"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	o := v.options
	if v.target != "unix:///s" || string(o.Parameters) != `{"k":1}` || o.Headers["x-zone"] != "a" {
		t.Errorf("read %+v", v)
	}
	if d := cmp.Diff(map[string][]string{"zone": {"a", "b"}, "rack": {"1"}}, o.Labels); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"e1", "e2"}, o.Endpoints); d != "" {
		t.Error(d)
	}
}
