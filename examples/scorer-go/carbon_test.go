package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pointsman/pointsman/conformance"
	"github.com/pointsman/pointsman/conformance/conformancetest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer/simple"
)

// start runs the scorer as its main does and returns where it listens.
func start(t *testing.T, file string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append([]string{"--listen", "127.0.0.1:0", "--file", file}, args...), in)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " listening on ")
	return address
}

func TestItConforms(t *testing.T) {
	conn, err := grpc.NewClient(start(t, "carbon.json"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o := conformance.DefaultOptions()
	o.Labels = map[string][]string{"topology.kubernetes.io/region": {"se", "fr", "pl", "atlantis"}}
	conformancetest.Run(t, conn, o, "score-time")
}

func TestWrongFilesAreRefused(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "se: 25", "below zero": `{"se":-1}`} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "carbon.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), []string{"--file", path}, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestTheFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carbon.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"se":25}`)
	g := &grid{path: path}
	if err := g.read(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1000)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.follow(ctx, 2*time.Millisecond, func(err error) { failed <- err })
	}()
	await := func(what string, f func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("gave up waiting for %s", what)
			}
		}
	}
	write(`{"se":30}`)
	await("the new figure", func() bool { return g.now.Load().grams["se"] == 30 })
	write(`no more`)
	if err := <-failed; g.now.Load().grams["se"] != 30 {
		t.Errorf("a wrong file (%v) went into use", err)
	}
	cancel()
	<-ended
}

func TestScoresSpreadFromCleanToDirty(t *testing.T) {
	g := &grid{path: "carbon.json"}
	if err := g.read(); err != nil {
		t.Fatal(err)
	}
	ask := func(regions ...string) []float32 {
		t.Helper()
		list := &scorerv1.CandidateList{}
		for _, region := range regions {
			list.Candidates = append(list.Candidates, &scorerv1.Candidate{EndpointId: region, Labels: []*scorerv1.Label{{Name: "region", Value: region}}})
		}
		s, err := carbon{parameters{"region"}, g}.Score(t.Context(), simple.NewRequest(&scorerv1.ScoreRequest{
			Candidates: &scorerv1.ScoreRequest_Listed{Listed: list}, Explain: true,
		}))
		if err != nil || len(s.Texts) != len(regions) {
			t.Fatalf("%v, error %v", s, err)
		}
		return s.Values
	}
	for _, tc := range []struct {
		regions []string
		want    []float32
	}{
		{[]string{"se", "pl"}, []float32{1, 0}},
		{[]string{"pl", "atlantis", "se"}, []float32{0, simple.Abstain, 1}},
		{[]string{"de"}, []float32{1}},
		{[]string{"atlantis"}, []float32{simple.Abstain}},
	} {
		if got := ask(tc.regions...); !slices.Equal(got, tc.want) {
			t.Errorf("%v got %v, want %v", tc.regions, got, tc.want)
		}
	}
}
