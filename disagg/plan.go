package disagg

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Connector is how a KV cache gets from one engine to the other. Its values are spelt as
// in configurations.
type Connector string

// Connectors.
const (
	NIXL          Connector = "nixlv2"
	SGLang        Connector = "sglang"
	SharedStorage Connector = "shared-storage"
	Mooncake      Connector = "mooncake"
	Offloading    Connector = "offloading"
)

// Connectors returns all of them.
func Connectors() []Connector { return []Connector{NIXL, SGLang, SharedStorage, Mooncake, Offloading} }

// single is true if a request can hand over the KV cache of one sequence only, once.
func (c Connector) single() bool { return c == NIXL || c == Mooncake || c == Offloading }

// Endpoint is an engine.
type Endpoint struct {
	// ID names it to whoever made the plan.
	ID string
	// Scheme is "http" or "https".
	Scheme string
	// Address is its host and port, IPv6 bracketed.
	Address string
}

// Plan is how a request is to be carried out. It is not changed, and may be shared.
type Plan struct {
	// Connector is what the engines speak.
	Connector Connector
	// Prefill are the endpoints for the prefill leg, best first; at least one. One may be
	// there several times, to be tried again.
	Prefill []Endpoint
	// Policy is what to do when the prefill leg fails.
	Policy Policy
	// BootstrapPort is where prefill engines listen for decoders; SGLang and Mooncake only.
	// 0: 8998.
	BootstrapPort uint16
	// P2P says where engines hand out what they have offloaded; Offloading, and Source.
	P2P P2P
	// Source is an endpoint, "host:port", that has more of the prompt cached than the one that
	// prefills, which is told to pull it from there. Empty: none. Only where Pulls is true.
	Source string
	// MoRIIO has prefill engines write to decode engines; NIXL only. Nil: these read.
	MoRIIO *MoRIIO
}

// DefaultBootstrapPort is SGLang's own default, and that of vLLM with Mooncake.
const DefaultBootstrapPort = 8998

// Action is what to do when a prefill leg has failed.
type Action uint8

// Actions.
const (
	RetryOther   Action = iota // try the next of the plan's endpoints
	LocalPrefill               // the engine that decodes prefills too
	Fail                       // the client gets an error
)

// Policy is what to do when prefill legs fail.
type Policy struct {
	// OnFailure are tried in order. None of them left is Fail.
	OnFailure []Action
	// Attempts is how many prefill legs may fail before RetryOther is out of question.
	// 0: any number.
	Attempts int
	// Timeout is how long one prefill leg may take. 0: for ever.
	Timeout time.Duration
	// Budget is how long all of them together may take; it cuts the last one short. 0: for
	// ever.
	Budget time.Duration
	// Backoff is waited before the same endpoint is tried again.
	Backoff time.Duration
}

// after returns what to do after failed legs that took spent together. another says
// whether there is an endpoint left to try.
func (p *Policy) after(failed int, spent time.Duration, another bool) Action {
	for _, a := range p.OnFailure {
		if a != RetryOther || another && (p.Attempts == 0 || failed < p.Attempts) && (p.Budget <= 0 || spent < p.Budget) {
			return a
		}
	}
	return Fail
}

// Request is what the client wants. It is not changed.
type Request struct {
	// URL has the path and the query; scheme and host are not read.
	URL *url.URL
	// Header is what goes to both engines, in canonical form, hop-by-hop and routing
	// headers left out. X-Request-Id, Accept and Accept-Encoding may differ on a leg, and
	// digests of the body are left out.
	Header http.Header
	// ID is the request's id. Both legs have it; those that are run because others have
	// failed have it with "-2", "-3" and so on after it: engines do not take an id twice.
	ID string
	// Body is the client's, JSON and not compressed. It must stay as it is until all
	// readers of it are closed.
	Body []byte
	// Encoded is what those who have encoded the request's media have answered as
	// ec_transfer_params: see Encoded.Transfer. All legs have it. Nil: nothing.
	Encoded []byte
	// Retain is called for every reader of Body, and what it returns when the reader is
	// closed, which may be after the answer has been. Nil: nobody needs to know.
	Retain func() (release func())
}

// check returns what is wrong with a plan.
func (p *Plan) check() error {
	switch p.Connector {
	case NIXL, SGLang, SharedStorage, Mooncake, Offloading:
	default:
		return fmt.Errorf("the connector %q is unknown", p.Connector)
	}
	if len(p.Prefill) == 0 {
		return errors.New("the plan names no endpoint for the prefill leg")
	}
	if p.MoRIIO != nil && p.Connector != NIXL {
		return fmt.Errorf("MoRI-IO writes with the connector %s only, not with %s", NIXL, p.Connector)
	}
	return nil
}
