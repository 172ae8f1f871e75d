package route

import "time"

// Policy is what to do when a stage fails, and how stages are carried out.
type Policy struct {
	// Prefill and Encode are of the stages of these names.
	Prefill, Encode StagePolicy
	// BootstrapPort is where prefill servers listen for decoders, with ConnectorSGLang and
	// ConnectorMooncake.
	BootstrapPort uint16
	// P2PPort is where engines hand out what they have offloaded, with ConnectorOffloading.
	P2PPort uint16
}

// Of returns the policy of the stage of that name.
func (p *Policy) Of(stage string) *StagePolicy {
	if stage == StageEncode {
		return &p.Encode
	}
	return &p.Prefill
}

// StagePolicy is what to do when one stage fails.
type StagePolicy struct {
	// OnFailure are tried in order; the last one is Local or Fail, and no other is.
	OnFailure []Action
	// Attempts is how many endpoints are tried at most, the first included; at least 1.
	Attempts int
	// Timeout is how long one attempt may take.
	Timeout time.Duration
	// Budget is how long all attempts together may take.
	Budget time.Duration
}

// Action is what to do when a stage has failed.
type Action uint8

// Actions.
const (
	RetryOther Action = iota // try the next of the stage's endpoints
	Local                    // the endpoint that decodes does the stage's work too
	Fail                     // the client gets an error
)

// Falls is true if a request without the stage is served all the same, by the endpoint
// that decodes.
func (p *StagePolicy) Falls() bool {
	return len(p.OnFailure) > 0 && p.OnFailure[len(p.OnFailure)-1] == Local
}

// Connector is how what a stage has made gets to the endpoint that decodes, and so how
// a stage is carried out.
type Connector string

// Connectors, spelt as in configurations.
const (
	// ConnectorNIXL: prefill first; its kv_transfer_params go into the decode request.
	ConnectorNIXL Connector = "nixlv2"
	// ConnectorSGLang: both at once, joined by a bootstrap host, port and room.
	ConnectorSGLang Connector = "sglang"
	// ConnectorSharedStorage: prefill first, if decoding says that its cache misses.
	ConnectorSharedStorage Connector = "shared-storage"
	// ConnectorMooncake: both at once, joined by an id.
	ConnectorMooncake Connector = "mooncake"
	// ConnectorOffloading: prefill first, which stores under an id what decoding fetches.
	ConnectorOffloading Connector = "offloading"
	// ConnectorSidecar: a proxy beside the endpoint that decodes carries it out; it is told
	// by headers.
	ConnectorSidecar Connector = "sidecar"
)
