// Package app is the program modelserver: one or many simulated model servers in one process.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/sim/page"
)

const service = "modelserver"

// Run serves until ctx ends. It announces each server's address as the listener "http".
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	servers, err := parse(args, stdout)
	if err != nil {
		return err
	}
	group := run.NewGroup(nil)
	group.Add(service, func(ctx context.Context, ready func()) error { return serve(ctx, servers, stdout, ready) })
	return group.Run(ctx)
}

// serve runs all servers side by side. The first that fails ends the others.
func serve(ctx context.Context, servers []*modelserver.Server, stdout io.Writer, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(servers))
	var running sync.WaitGroup
	for i, s := range servers {
		started := make(chan struct{})
		running.Go(func() {
			errs[i] = s.Run(ctx, func() {
				run.Announce(ctx, stdout, service, "http", s.Address())
				close(started)
			})
			cancel()
		})
		// One after the other, so that they are announced in order.
		select {
		case <-started:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		ready()
	}
	running.Wait()
	return errors.Join(errs...)
}

// parse makes the servers that the command line asks for.
func parse(args []string, stdout io.Writer) ([]*modelserver.Server, error) {
	cfg := modelserver.DefaultConfig()
	cfg.Address = "127.0.0.1:8001"
	fs := flag.NewFlagSet(service, flag.ContinueOnError)
	fs.SetOutput(stdout)
	count := fs.Int("servers", 1, "how many `servers`, on consecutive ports from that of --address (all on free ports if that is 0)")
	flags(fs, &cfg)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, run.UsageError{Err: err}
	}
	if fs.NArg() > 0 {
		return nil, run.UsageError{Err: fmt.Errorf("argument %q: there are only flags; --help lists them", fs.Arg(0))}
	}
	if *count < 1 {
		return nil, run.UsageError{Err: fmt.Errorf("--servers %d: must be positive", *count)}
	}
	host, text, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, run.UsageError{Err: fmt.Errorf("--address: %w", err)}
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port != 0 && port+uint64(*count) > 1<<16 {
		return nil, run.UsageError{Err: fmt.Errorf("--address %s: there are no %d ports from that on", cfg.Address, *count)}
	}
	var servers []*modelserver.Server
	for i := range *count {
		own := cfg
		if port != 0 {
			own.Address = net.JoinHostPort(host, strconv.FormatUint(port+uint64(i), 10))
		}
		own.Seed += uint64(i)
		s, err := modelserver.New(own)
		if err != nil {
			return nil, run.UsageError{Err: err}
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// transfer registers what can be set of disaggregated prefill.
func transfer(fs *flag.FlagSet, t *modelserver.Transfer) {
	fs.Func("kv-connector", "how servers hand each other KV-cache blocks: `nixl`, shared-storage, sglang, mooncake, offloading or moriio (default not at all)", func(v string) error {
		t.Connector = modelserver.Connector(v)
		if t.Connector == modelserver.SharedStorage {
			t.Store = modelserver.NewStore(1 << 20)
		}
		return nil
	})
	fs.Func("disaggregation-mode", "what an SGLang server is for: `prefill` or decode (default both)", func(v string) error {
		t.Mode = modelserver.Mode(v)
		return nil
	})
	fs.Func("kv-load-failure-policy", fmt.Sprintf("what becomes of a request whose prompt does not arrive: `fail` or recompute (default %s)", t.OnLoadFailure), func(v string) error {
		t.OnLoadFailure = modelserver.LoadFailure(v)
		return nil
	})
	fs.DurationVar(&t.Base, "kv-transfer-base", t.Base, "`time` of every transfer")
	fs.Float64Var(&t.Rate, "kv-transfer-rate", t.Rate, "speed of transfers in `tokens` per second")
	fs.DurationVar(&t.HoldFor, "kv-hold", t.HoldFor, "`time` for which blocks are kept that nobody fetches")
	fs.StringVar(&t.BootstrapAddress, "bootstrap-address", t.BootstrapAddress, "second `HOST:PORT` for other servers: bootstrap rooms, Mooncake's bootstrap server, offloaded blocks")
	fs.IntVar(&t.Ranks, "data-parallel-size", t.Ranks, "how many data-parallel `ranks` it says it has")
}

// flags registers what can be set of a server.
func flags(fs *flag.FlagSet, cfg *modelserver.Config) {
	e := &cfg.Engine
	fs.StringVar(&cfg.Address, "address", cfg.Address, "`HOST:PORT` to serve on")
	fs.StringVar(&cfg.Name, "name", cfg.Name, "`name` told in the header x-sim-server (default the address)")
	fs.StringVar(&cfg.Model, "model", cfg.Model, "`name` of the model")
	fs.Func("adapters", "comma-separated `names` of LoRA adapters", func(v string) error {
		cfg.Adapters = strings.Split(v, ",")
		if e.MaxAdapters == 0 {
			e.MaxAdapters = 1
		}
		return nil
	})
	fs.IntVar(&e.MaxAdapters, "max-loras", e.MaxAdapters, "most different adapters in a batch (default 1 with --adapters)")
	fs.Float64Var(&cfg.TimeScale, "time-scale", cfg.TimeScale, "how many `times` faster than the modelled engine")
	fs.IntVar(&e.BlockSize, "block-size", e.BlockSize, "`tokens` in a KV-cache block")
	fs.IntVar(&e.NumBlocks, "num-gpu-blocks", e.NumBlocks, "KV-cache `blocks`")
	fs.IntVar(&e.MaxModelLen, "max-model-len", e.MaxModelLen, "most `tokens` of prompt and answer together (0: what the KV cache holds)")
	fs.IntVar(&e.MaxRunning, "max-num-seqs", e.MaxRunning, "most `requests` in the running batch")
	fs.IntVar(&e.MaxWaiting, "max-waiting", e.MaxWaiting, "most `requests` in the queue (0: no limit)")
	fs.IntVar(&e.MaxStepTokens, "max-num-batched-tokens", e.MaxStepTokens, "token budget of a step, in `tokens`")
	fs.Float64Var(&e.PrefillRate, "prefill-rate", e.PrefillRate, "speed of prefill in `tokens` per second")
	fs.DurationVar(&e.StepBase, "step-base", e.StepBase, "`time` of every step")
	fs.DurationVar(&e.StepPerRequest, "step-per-request", e.StepPerRequest, "`time` that each decoding request adds to a step")
	fs.DurationVar(&e.StepPerContextToken, "step-per-context-token", e.StepPerContextToken, "`time` that each token a decoding request attends to adds to a step")
	fs.DurationVar(&e.AdapterLoad, "adapter-load", e.AdapterLoad, "`time` to load an adapter")
	fs.BoolVar(&e.DisablePrefixCache, "disable-prefix-cache", e.DisablePrefixCache, "compute every prompt from its start")
	transfer(fs, &cfg.Transfer)
	fs.IntVar(&cfg.MinAnswer, "min-answer", cfg.MinAnswer, "shortest natural answer in `tokens`")
	fs.IntVar(&cfg.MaxAnswer, "max-answer", cfg.MaxAnswer, "longest natural answer in `tokens`")
	fs.IntVar(&cfg.EmbeddingSize, "embedding-size", cfg.EmbeddingSize, "`dimensions` of embeddings")
	fs.Func("page", fmt.Sprintf("`style` of the metrics page, one of %v (default %s)", page.Styles(), cfg.Page), func(v string) error {
		cfg.Page = page.Style(v)
		return nil
	})
	fs.BoolVar(&cfg.LargePage, "large-page", cfg.LargePage, "make the metrics page some 58 KB large")
	fs.Func("ec-role", "what it has to do with media that are encoded elsewhere: `producer` or consumer (default nothing)", func(v string) error {
		cfg.MediaRole = modelserver.MediaRole(v)
		return nil
	})
	fs.Func("dialect", fmt.Sprintf("whose answers it gives where simulators and engines differ: `%s` or %s (default %s)", modelserver.VLLM, modelserver.LLMDSim, cfg.Dialect), func(v string) error {
		cfg.Dialect = modelserver.Dialect(v)
		return nil
	})
	fs.DurationVar(&cfg.StartupDuration, "startup-duration", cfg.StartupDuration, "say at /health/ready for this `time` after the start that it is not ready")
	fs.DurationVar(&cfg.StartDelay, "start-delay", cfg.StartDelay, "refuse connections for this `time` after the start")
	fs.Func("faults", "faults from the start, as the `JSON` of POST /sim/faults", func(v string) error {
		d := json.NewDecoder(strings.NewReader(v))
		d.DisallowUnknownFields()
		return d.Decode(&cfg.Faults)
	})
	fs.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "`number` that decides which requests a fault with a probability hits")
}
