package disagg

import (
	"encoding/json"
	"net"
	"strconv"

	"github.com/pointsman/pointsman/disagg/body"
)

// DefaultP2PPort is where engines hand out what they have offloaded, by convention.
const DefaultP2PPort = 7777

// P2P says where engines hand out what is in the tier of their OffloadingConnector. Each
// data-parallel rank has the next port, here as for requests.
type P2P struct {
	// Port is that of rank 0. 0: 7777.
	Port uint16
	// Base is the port at which rank 0 takes requests. 0: all are rank 0.
	Base uint16
	// Ranks is how many there are.
	Ranks int
}

// portOf returns the port of the engine that takes requests at the address. Whatever is not
// the address of a rank is rank 0.
func (p P2P) portOf(address string) int {
	port := int(p.Port)
	if port == 0 {
		port = DefaultP2PPort
	}
	if p.Ranks <= 1 || p.Base == 0 {
		return port
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return port
	}
	at, err := strconv.Atoi(text)
	if rank := at - int(p.Base); err == nil && rank >= 0 && rank < p.Ranks {
		return port + rank
	}
	return port
}

// stored is where an engine finds what another one has stored under an id.
type stored struct {
	ID   string `json:"kv_request_id"`
	Host string `json:"remote_host"`
	Port int    `json:"remote_port"`
}

func (p P2P) stored(id, address string) *stored {
	return &stored{id, hostOf(address), p.portOf(address)}
}

// pulled returns where an engine finds the beginning of a prompt that the one at the
// address has cached. The id is of this fetch alone: nothing was stored for it.
func (p P2P) pulled(address string) *stored { return p.stored(newUUID(), address) }

// sourceKey is the member of kv_transfer_params that names an engine to pull from.
const sourceKey = "remote_kv_source"

// Pull returns the kv_transfer_params that have an engine pull what the one at the address
// has cached of the prompt.
func (p P2P) Pull(address string) []byte {
	return params(map[string]*stored{sourceKey: p.pulled(address)})
}

// Pulls is true if engines of the connector can pull a prompt's beginning from others: with
// NIXL, if they have an OffloadingConnector beside it.
func Pulls(c Connector, beside bool) bool { return c == Offloading || c == NIXL && beside }

// source returns whom the engine that prefills should pull from; "": nobody, or itself.
func (x *Run) source(from Endpoint) string {
	if x.plan.Source == from.Address {
		return ""
	}
	return x.plan.Source
}

// pulling adds to the kv_transfer_params of a prefill leg whom its engine should pull from.
func (x *Run) pulling(transfer string, from Endpoint) []byte {
	source := x.source(from)
	if source == "" {
		return []byte(transfer)
	}
	p, err := body.ReadParams([]byte(transfer))
	if err != nil { // it is ours
		return []byte(transfer)
	}
	return p.With([]body.Param{{Name: sourceKey, Value: string(params(x.plan.P2P.pulled(source)))}}, nil)
}

// offloaded runs the legs of engines that offload what they have computed: the first stores
// it under an id, the second fetches it by that. If it came before it would wait for what
// is not there yet, and give up.
func (x *Run) offloaded(from Endpoint) asked {
	id := newUUID()
	ask := struct {
		Decoder struct {
			ID string `json:"kv_request_id"`
		} `json:"remote_decoder"`
		Source *stored `json:"remote_kv_source,omitempty"`
	}{}
	ask.Decoder.ID = id
	if source := x.source(from); source != "" {
		ask.Source = x.plan.P2P.pulled(source)
	}
	fetch := params(map[string]*stored{"remote_prefiller": x.plan.P2P.stored(id, from.Address)})
	return asked{body: x.o.Offloading(x.api, params(ask)), answered: func([]byte) []byte { return fetch }}
}

// params writes kv_transfer_params.
func params(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil { // texts and numbers do not fail
		return []byte("{}")
	}
	return out
}

// hostOf returns the host of an address.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
