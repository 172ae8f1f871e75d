package envoy

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/test/cluster"
)

// TestOpenAIClient has the official Python client ask in all the ways it has, streamed
// and not, in each mode that lets events through.
func TestOpenAIClient(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2}, listeners: func(b *bootstrap) {
		for _, mode := range []string{"FULL_DUPLEX_STREAMED", "STREAMED", "BUFFERED"} {
			b.listen(t, mode, func(l *listener) { l.modes(mode, mode) })
		}
	}})
	python := filepath.Join("..", "..", ".tools", "venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("%v: run test/setup/ready.sh", err)
	}
	type refusal struct{ Code, Param, Reason string }
	type said struct {
		Text, Finish, Server, Streamed, Completion string
		Tokens, Pieces, Embedding                  int
		StreamedTokens                             int `json:"streamed_tokens"`
		Models                                     []string
		Error                                      *refusal
	}
	for _, mode := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED", "STREAMED"} {
		t.Run(mode, func(t *testing.T) {
			mark := r.mark(t)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, python, filepath.Join("testdata", "client.py"), r.url(mode)+"/v1")
			cmd.Env = []string{"NO_PROXY=*", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got said
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Text == "" || got.Text != got.Streamed || got.Completion == "" || r.servers.at(got.Server) == nil {
				t.Errorf("%+v", got)
			}
			want := said{
				Text: got.Text, Streamed: got.Text, Server: got.Server, Completion: got.Completion,
				Finish: "length", Tokens: 20, Pieces: 20, StreamedTokens: 20, Embedding: 2, Models: []string{"sim-model"},
				Error: &refusal{Code: "model_missing", Param: "model", Reason: "model-missing"},
			}
			picks := 6
			if mode == "STREAMED" { // the body is not known, so the server says what it thinks of it
				want.Error, picks = got.Error, picks+1
				if len(r.outcomes.least(t, mark, 6)) == 7 && got.Error != nil && got.Error.Reason != "" {
					t.Errorf("%+v", got.Error)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			completed := 0
			for _, o := range r.outcomes.since(t, mark, picks) {
				if o.finished.GetCompleted() {
					completed++
				}
			}
			if completed < 5 {
				t.Errorf("%d of %d picks have completed", completed, picks)
			}
			r.idle(t)
			r.content(t, mode)
		})
	}
}
