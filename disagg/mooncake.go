package disagg

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// mooncakeFetch is what the decode leg is told.
type mooncakeFetch struct {
	Prefill   bool   `json:"do_remote_prefill"`
	Decode    bool   `json:"do_remote_decode"`
	Transfer  string `json:"transfer_id"`
	Bootstrap string `json:"remote_bootstrap_addr"`
	Engine    string `json:"remote_engine_id"`
}

// mooncakeSend is what the prefill leg is told.
type mooncakeSend struct {
	Prefill  bool   `json:"do_remote_prefill"`
	Decode   bool   `json:"do_remote_decode"`
	Transfer string `json:"transfer_id"`
}

// mooncake says what the legs of Mooncake's engines are sent. The bootstrap server of the
// prefill engine tells the id of each data-parallel rank; one of them prefills, and the
// decode engine is told its id.
func (x *Run) mooncake(ctx context.Context, from Endpoint) (link, *result) {
	port := x.plan.BootstrapPort
	if port == 0 {
		port = DefaultBootstrapPort
	}
	address := net.JoinHostPort(hostOf(from.Address), strconv.Itoa(int(port)))
	began := time.Now()
	query, cancel := x.plan.Policy.limited(ctx, x.began)
	defer cancel()
	engines, err := x.r.engines.behind(query, address)
	if err != nil {
		r := &result{Attempt: Attempt{Endpoint: from, Reason: NoBootstrap, PromptTokens: -1, CachedTokens: -1, Took: time.Since(began), Err: err}}
		switch {
		case ctx.Err() != nil:
			r.Reason = Cancelled
		case errors.Is(context.Cause(query), errLegTimeout):
			r.Reason = Timeout
		}
		x.w.PrefillBegins(from)
		x.w.PrefillEnds(r.Attempt)
		return link{}, r
	}
	e := engines[rand.IntN(len(engines))] //nolint:gosec // a choice among equals
	id := "xfer-" + newUUID()
	return link{
		prefill:     x.o.Handing(x.api, params(mooncakeSend{Decode: true, Transfer: id})),
		decode:      x.o.NIXLDecode(params(mooncakeFetch{Prefill: true, Transfer: id, Bootstrap: "http://" + address, Engine: e.id})),
		prefillRank: e.rank,
		broken:      func() { x.r.engines.forget(address) },
	}, nil
}
