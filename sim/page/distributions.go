package page

import (
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// Distributions holds the histograms of one engine. Make it with Page.NewDistributions. It is not safe for concurrent use.
type Distributions struct {
	// In seconds.
	E2E, TTFT, InterToken, PerOutputToken, Queue, Inference, Prefill, Decode *Histogram
	// In tokens. MaxTokens is of the requests that name a cap.
	Prompt, Generation, MaxTokens *Histogram
	// Of prompts fetched from other servers: seconds, bytes and blocks.
	Transfer, TransferBytes, TransferBlocks *Histogram
	// TransferFailed counts prompts that did not arrive, TransferExpired those that nobody fetched here.
	TransferFailed, TransferExpired uint64
}

// newDistributions returns empty ones for a model of the given length in tokens.
func newDistributions(modelLen int) *Distributions {
	request := func() *Histogram { return newHistogram(requestBounds()) }
	tokens := func() *Histogram { return newHistogram(tokenBounds(modelLen)) }
	return &Distributions{
		E2E: request(), Queue: request(), Inference: request(), Prefill: request(), Decode: request(),
		TTFT:       newHistogram(firstTokenBounds()),
		InterToken: newHistogram(tokenTimeBounds()), PerOutputToken: newHistogram(tokenTimeBounds()),
		Prompt: tokens(), Generation: tokens(), MaxTokens: tokens(),
		Transfer: newHistogram(transferBounds()), TransferBytes: newHistogram(transferBytesBounds()), TransferBlocks: newHistogram(transferBlocksBounds()),
	}
}

// Transferred counts a prompt that has arrived from another server.
func (d *Distributions) Transferred(took time.Duration, bytes, blocks int) {
	d.Transfer.Observe(took.Seconds())
	d.TransferBytes.Observe(float64(bytes))
	d.TransferBlocks.Observe(float64(blocks))
}

// Record counts what an event tells. maxTokens is the cap that its request named, 0 for none.
func (d *Distributions) Record(ev engine.Event, maxTokens int) {
	switch ev.Kind {
	case engine.FirstToken:
		d.TTFT.Observe(ev.Since.Seconds())
	case engine.NextToken:
		d.InterToken.Observe(ev.Since.Seconds())
	case engine.Finished:
		if ev.Reason != engine.Aborted && ev.Reason != engine.Failed {
			d.finished(ev, maxTokens)
		}
	}
}

func (d *Distributions) finished(ev engine.Event, maxTokens int) {
	t := ev.Timing
	between := func(h *Histogram, from, to time.Duration) { h.Observe((to - from).Seconds()) }
	between(d.E2E, t.Submitted, t.Ended)
	between(d.Queue, t.Submitted, t.Admitted)
	between(d.Inference, t.Admitted, t.Ended)
	if ev.Tokens > 0 {
		between(d.Prefill, t.Admitted, t.FirstToken)
		between(d.Decode, t.FirstToken, t.Ended)
	}
	if ev.Tokens > 1 {
		d.PerOutputToken.Observe((t.Ended - t.FirstToken).Seconds() / float64(ev.Tokens-1))
	}
	d.Prompt.Observe(float64(t.Prompt))
	d.Generation.Observe(float64(ev.Tokens))
	if maxTokens > 0 {
		d.MaxTokens.Observe(float64(maxTokens))
	}
}
