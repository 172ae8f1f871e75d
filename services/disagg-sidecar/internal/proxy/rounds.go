package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/disagg/body"
)

// Why requests are not decoded in rounds, besides what their bodies say.
const (
	// unreadable: the body is no JSON object.
	unreadable = "body-unreadable"
	// encoded: others have encoded the media, and hand over once what each round would need.
	encoded = "media-encoded"
)

// divides is true if the request's answer may be decoded in rounds.
func (x *exchange) divides() bool {
	return x.p.cfg.Decode.ChunkSize > 0 && body.APIOf(x.r.URL.Path) == body.Chat
}

// chunks has the answer decoded in rounds; nil: it is decoded at once.
func (x *exchange) chunks(req *disagg.Request) *disagg.Chunks {
	if x.p.cfg.Decode.ChunkSize == 0 {
		return nil
	}
	if req.Encoded != nil {
		x.p.metrics.whole(encoded)
		return nil
	}
	c, why, err := disagg.NewChunks(req, int64(x.p.cfg.Decode.ChunkSize), x.p.metrics.round)
	switch {
	case err != nil: // who serves the request says so
		x.p.metrics.whole(unreadable)
	case why != "":
		x.p.metrics.whole(string(why))
	}
	return c
}

// inRounds has the answer decoded in rounds, of which the first is what a request decoded
// at once is: whatever is handed over, it is given.
func (x *exchange) inRounds(chunks *disagg.Chunks, targets []disagg.Endpoint, source string) *refusal {
	ctx, first := x.r.Context(), chunks.First()
	own := 2 * int64(len(first.Body)) // that of the round under way is as large
	x.p.held.Add(own)
	defer x.p.held.Add(-own)
	resp, refused, err := x.firstRound(first, targets, source)
	if errors.Is(err, body.ErrTooMany) { // by those of a round
		return &refusal{http.StatusBadRequest, BadBody, err.Error()}
	}
	if err != nil {
		var prefill *disagg.PrefillError
		if !errors.As(err, &prefill) { // else there was no round
			chunks.Failed(err)
		}
		return refuse(err)
	}
	if !refused { // else there was no round: the answer is of who was to prefill
		if resp, err = x.p.runner.Rounds(ctx, chunks, resp, x.further(targets)); err != nil {
			return refuse(err)
		}
	}
	defer func() { _ = resp.Body.Close() }()
	return x.relay(resp)
}

// firstRound sends the first round. refused is true if the answer is that of who was to
// prefill, and nobody has decoded.
func (x *exchange) firstRound(req *disagg.Request, targets []disagg.Endpoint, source string) (resp *http.Response, refused bool, err error) {
	if len(targets) == 0 {
		resp, err = x.sendAlone(req, source)
		return resp, false, err
	}
	run, err := x.p.runner.Begin(x.p.plan(targets, source), req, x.p.metrics)
	if err != nil {
		return nil, false, err
	}
	if source != "" {
		x.p.metrics.source(sourceUsed)
	}
	resp, err = x.send(run)
	return resp, run.Report().Served == disagg.ByPrefillAlone, err
}

// sendAlone sends a request to the model server, which prefills too.
func (x *exchange) sendAlone(req *disagg.Request, source string) (*http.Response, error) {
	o, err := body.Read(req.Body)
	if err != nil {
		return nil, err
	}
	own := *req
	b, _ := x.alone(o.Encoded(req.Encoded), source)
	own.Body = b.Bytes()
	return x.p.runner.Alone(x.r.Context(), &own, x.rank.endpoint)
}

// further sends the later rounds. The model server has the prompt by then; only where servers
// that decode cannot compute what has been added to it, as SGLang's and those that are
// written to, does somebody else prefill again.
func (x *exchange) further(targets []disagg.Endpoint) disagg.Sender {
	alone := disagg.Connector(x.p.cfg.Prefill.Connector) != disagg.SGLang && x.p.pods.as == nil
	if alone || len(targets) == 0 {
		return func(ctx context.Context, req *disagg.Request) (*http.Response, error) {
			return x.p.runner.Alone(ctx, req, x.rank.endpoint)
		}
	}
	return func(ctx context.Context, req *disagg.Request) (*http.Response, error) {
		run, err := x.p.runner.Begin(x.p.plan(targets, ""), req, x.p.metrics)
		if err != nil {
			return nil, err
		}
		return run.Send(ctx, x.rank.endpoint)
	}
}

// roundOf returns what a model server has answered in place of a round, in one line; nil
// for other errors.
func roundOf(err error) []byte {
	var round *disagg.RoundError
	var line bytes.Buffer
	if !errors.As(err, &round) || round.Body == nil || json.Compact(&line, round.Body) != nil {
		return nil
	}
	return line.Bytes()
}

// round counts a round of decoding.
func (i *instruments) round(r disagg.Reason) {
	i.rounds.Add(context.Background(), 1, label("reason", string(r)))
}

// whole counts a request that was decoded at once, though rounds are wanted.
func (i *instruments) whole(why string) {
	i.wholes.Add(context.Background(), 1, label("reason", why))
}
