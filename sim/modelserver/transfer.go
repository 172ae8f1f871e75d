package modelserver

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Connector is the way in which servers hand each other KV-cache blocks.
type Connector string

// The connectors.
const (
	// NoConnector: requests that ask for a transfer are served as if they did not.
	NoConnector Connector = ""
	// NIXL is vLLM's NixlConnector: a prefill leg keeps its blocks and names them in kv_transfer_params, a decode leg that is
	// given these fetches them.
	NIXL Connector = "nixl"
	// SharedStorage is a store that all servers write to and read from. See Transfer.Store.
	SharedStorage Connector = "shared-storage"
	// SGLang is SGLang's: both legs are sent at once and meet in a bootstrap room of the prefill server. See Transfer.Mode.
	SGLang Connector = "sglang"
	// Mooncake is vLLM's MooncakeConnector: both legs are sent at once with one transfer_id, and the decode leg names the
	// prefill server's bootstrap server, which tells its engines at /query.
	Mooncake Connector = "mooncake"
	// Offloading is vLLM's OffloadingConnector with its tier between servers: a prefill leg stores its prompt under a
	// kv_request_id, a decode leg that comes with it fetches it, and others can pull the beginnings of prompts.
	Offloading Connector = "offloading"
	// MoRIIO is vLLM's MoRIIOConnector in write mode: both legs have one transfer_id and say where the other one is.
	MoRIIO Connector = "moriio"
)

// LoadFailure says what a server does with a request whose prompt does not arrive (vLLM's kv_load_failure_policy).
type LoadFailure string

// The policies.
const (
	// FailRequest ends it with status 500.
	FailRequest LoadFailure = "fail"
	// Recompute computes the prompt here.
	Recompute LoadFailure = "recompute"
)

// Mode is SGLang's --disaggregation-mode.
type Mode string

// The modes.
const (
	// Unified servers do both.
	Unified Mode = ""
	// PrefillMode servers compute prompts for others, and take only requests with a bootstrap room.
	PrefillMode Mode = "prefill"
	// DecodeMode servers have prompts computed by others, and take only requests with a bootstrap room.
	DecodeMode Mode = "decode"
)

// Transfer says how KV-cache blocks go between servers. Times are the modelled ones.
type Transfer struct {
	// Connector is the way. Default NoConnector.
	Connector Connector
	// Mode is what an SGLang server is for. Default Unified.
	Mode Mode
	// Base is what every transfer takes. Default 2 ms.
	Base time.Duration
	// Rate is the speed of transfers in tokens per second. Default 150,000: 128 KiB for a token, as an 8B model has, over a
	// link of 200 Gb/s.
	Rate float64
	// BytesPerToken is only shown on the metrics page. Default 131,072.
	BytesPerToken int
	// HoldFor is how long blocks are kept that nobody fetches (VLLM_NIXL_ABORT_REQUEST_TIMEOUT). Default 480 s.
	HoldFor time.Duration
	// MeetFor is how long a leg waits for the other in a bootstrap room. Default 300 s, as SGLang.
	MeetFor time.Duration
	// OnLoadFailure is what becomes of a request whose prompt does not arrive. Default FailRequest, as vLLM.
	OnLoadFailure LoadFailure
	// BootstrapAddress is a second "host:port" to listen on, where other servers find what is here: an SGLang prefill
	// server's rooms, Mooncake's bootstrap server, the tier of an OffloadingConnector, MoRI-IO's handshakes. They find it
	// at Config.Address too. Empty, the default, means only there.
	BootstrapAddress string
	// Store is what servers with SharedStorage have in common. Default none: nothing is shared. With Offloading it is the
	// server's own tier, which it makes for itself.
	Store *Store
	// Ranks is how many data-parallel ranks the server says it has. They share its engine. Default 1.
	Ranks int
}

// DefaultTransfer returns the defaults named at each field.
func DefaultTransfer() Transfer {
	return Transfer{
		Base: 2 * time.Millisecond, Rate: 150_000, BytesPerToken: 128 << 10, HoldFor: 480 * time.Second, MeetFor: 300 * time.Second,
		OnLoadFailure: FailRequest, Ranks: 1,
	}
}

// Validate reports all faults of t at once.
func (t Transfer) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains([]Connector{NoConnector, NIXL, SharedStorage, SGLang, Mooncake, Offloading, MoRIIO}, t.Connector),
		"Transfer Connector %q: must be nixl, shared-storage, sglang, mooncake, offloading, moriio or empty", t.Connector)
	check(slices.Contains([]Mode{Unified, PrefillMode, DecodeMode}, t.Mode), "Transfer Mode %q: must be prefill, decode or empty", t.Mode)
	check(t.Mode == Unified || t.Connector == SGLang, "Transfer Mode %q: only with the connector sglang", t.Mode)
	check(t.Base >= 0, "Transfer Base %v: must not be negative", t.Base)
	check(t.Rate > 0, "Transfer Rate %v: must be positive", t.Rate)
	check(t.BytesPerToken > 0, "Transfer BytesPerToken %d: must be positive", t.BytesPerToken)
	check(t.HoldFor > 0, "Transfer HoldFor %v: must be positive", t.HoldFor)
	check(t.Ranks > 0, "Transfer Ranks %d: must be positive", t.Ranks)
	check(t.MeetFor > 0, "Transfer MeetFor %v: must be positive", t.MeetFor)
	check(t.OnLoadFailure == FailRequest || t.OnLoadFailure == Recompute, "Transfer OnLoadFailure %q: must be fail or recompute", t.OnLoadFailure)
	return errors.Join(faults...)
}

// Takes is how long the transfer of so many tokens takes.
func (t Transfer) Takes(tokens int) time.Duration {
	return t.Base + time.Duration(float64(tokens)/t.Rate*float64(time.Second))
}

// Transfers counts what a server has handed over and fetched.
type Transfers struct {
	// Served, Refused and Broken count what others came for: handed over whole, not known here, or ended half-way.
	Served, Refused, Broken uint64
	// Fetched and Failed count what this server went for. FetchedTokens are those of Fetched.
	Fetched, Failed, FetchedTokens uint64
	// MediaServed, MediaFetched and MediaFailed count parts of chats that were encoded elsewhere: handed over, fetched, and
	// not to be had.
	MediaServed, MediaFetched, MediaFailed uint64
	// Expired counts prompts that nobody fetched within HoldFor.
	Expired uint64
	// Rooms is the number of bootstrap rooms that a leg is in.
	Rooms int
}
