package disagg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/pointsman/pointsman/disagg/body"
)

// MoRIIO has prefill engines write what they compute into the memory of decode engines:
// vLLM's MoRI-IO connector in its mode "write". Both are told where the other one is, so
// that all engines of a pool must be alike in what is said here.
type MoRIIO struct {
	// Parallel sends both legs at once. The answer begins when the prefill leg has done its
	// work. Else the decode leg is sent then.
	Parallel bool
	// Within is how long the answer waits for the prefill leg, which then counts as timed
	// out; Parallel only. Default 30 s.
	Within time.Duration
	// DecodeHost is the IP address under which prefill engines find the decode engine, which
	// they know it by. Empty: the host of its address.
	DecodeHost string
	// Ports of rank 0 at which engines shake hands, and at which they hear that something
	// was written. Defaults 6301 and 61005, vLLM's.
	PrefillHandshake, PrefillNotify, DecodeHandshake, DecodeNotify uint16
	// Tensor is how many tensor-parallel ranks an engine has. Default 1.
	Tensor int
	// Ranks is how many data-parallel ranks there are in all, and Local how many in a pod; 0:
	// all. Both legs go to the same one, which follows from the request's id. Defaults 1, 0.
	Ranks, Local int
	// PrefillHosts and DecodeHosts are the IP addresses of the pods, in the order of their
	// ranks, where they are in several: as many as Ranks by Local. Names are taken by
	// Validate, but must have been looked up in a plan. Default: none.
	PrefillHosts, DecodeHosts []string
}

// DefaultMoRIIO returns the defaults.
func DefaultMoRIIO() MoRIIO {
	return MoRIIO{
		Within: 30 * time.Second, PrefillHandshake: 6301, PrefillNotify: 61005, DecodeHandshake: 6301, DecodeNotify: 61005,
		Tensor: 1, Ranks: 1,
	}
}

// Validate returns all that is wrong.
func (m *MoRIIO) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if m.Parallel && m.Within <= 0 {
		fault("within: %v is not above 0", m.Within)
	}
	for key, n := range map[string]int{
		"prefillHandshakePort": int(m.PrefillHandshake), "prefillNotifyPort": int(m.PrefillNotify),
		"decodeHandshakePort": int(m.DecodeHandshake), "decodeNotifyPort": int(m.DecodeNotify),
		"tensorRanks": m.Tensor, "ranks": m.Ranks,
	} {
		if n < 1 {
			fault("%s: %d is not above 0", key, n)
		}
	}
	if m.Local < 0 || m.Local > 0 && m.Ranks%m.Local != 0 {
		fault("localRanks: %d does not divide ranks, %d", m.Local, m.Ranks)
	}
	if m.DecodeHost != "" {
		faults = append(faults, hostOnly("localIP", m.DecodeHost))
	}
	faults = append(faults, m.hosts("prefillHosts", m.PrefillHosts), m.hosts("decodeHosts", m.DecodeHosts))
	return errors.Join(faults...)
}

// hosts returns what is wrong with a list of pods.
func (m *MoRIIO) hosts(key string, all []string) error {
	var faults []error
	for i, h := range all {
		faults = append(faults, hostOnly(fmt.Sprintf("%s[%d]", key, i), h))
	}
	switch {
	case len(all) < 2:
	case m.Local < 1:
		faults = append(faults, fmt.Errorf("%s: there are several, so localRanks must say how many ranks are in each", key))
	case m.Ranks/m.Local != len(all):
		faults = append(faults, fmt.Errorf("%s: there are %d, and ranks by localRanks is %d", key, len(all), m.Ranks/m.Local))
	}
	return errors.Join(faults...)
}

// hostOnly returns an error for a host that is neither an IP address nor a name of the DNS.
func hostOnly(key, host string) error {
	if _, err := netip.ParseAddr(host); err == nil || name.MatchString(host) {
		return nil
	}
	return fmt.Errorf("%s: %q is neither an IP address nor a name", key, host)
}

var name = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?$`)

// rank returns the data-parallel rank for a request's id: the first 8 bytes of its BLAKE2s,
// modulo the ranks.
func rankOf(id string, ranks int) int {
	if ranks <= 1 {
		return 0
	}
	sum := blake2s.Sum256([]byte(id))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(ranks)) //nolint:gosec // below ranks
}

// returned returns the rank that a prefill leg says it ran on, or that for the id.
func (m *MoRIIO) returned(p *body.Params, id string) int {
	f, err := strconv.ParseFloat(string(p.Get("remote_dp_rank")), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f >= float64(m.Ranks) {
		return rankOf(id, m.Ranks)
	}
	return int(f)
}

// local returns the rank as the pod that has it is told; empty where there is one.
func (m *MoRIIO) local(rank int) string {
	switch {
	case m.Ranks <= 1:
		return ""
	case m.Local > 0:
		rank %= m.Local
	}
	return strconv.Itoa(rank)
}

// pods adds the hosts of the other side.
func (m *MoRIIO) pods(to []body.Param, hosts []string) []body.Param {
	if len(hosts) == 0 {
		return to
	}
	to = append(to, body.Param{Name: "remote_hosts", Value: string(params(hosts))})
	if m.Local > 0 {
		to = append(to, number("remote_dp_size_local", m.Local))
	}
	return to
}

// sending returns what the prefill leg is told: the decode engine, where it is to write to.
func (x *Run) sending(from, decode Endpoint, id string, rank int) []byte {
	m := x.plan.MoRIIO
	host := m.DecodeHost
	if host == "" {
		host = hostOf(decode.Address)
	}
	all := []body.Param{
		text("remote_host", host), number("remote_notify_port", int(m.DecodeNotify)), number("remote_dp_rank", rank), {Name: "remote_dp_rank_override", Value: "true"},
		number("remote_handshake_port", int(m.DecodeHandshake)), text("transfer_id", id), number("tp_size", m.Tensor), number("remote_dp_size", m.Ranks),
	}
	p, err := body.ReadParams(x.pulling(body.AskTransfer, from))
	if err != nil { // it is ours
		return []byte(body.AskTransfer)
	}
	return p.With(m.pods(all, m.DecodeHosts), nil)
}

// written says what a prefill leg is sent before the decode leg.
func (x *Run) written(from, decode Endpoint) asked {
	m := x.plan.MoRIIO
	id, rank := "tx"+newUUID(), rankOf(x.id, m.Ranks)
	return asked{
		body: x.o.Handing(x.api, x.sending(from, decode, id, rank)), rank: m.local(rank), want: true,
		answered: func(transfer []byte) []byte {
			p, err := body.ReadParams(transfer)
			if err != nil { // it was read before
				return transfer
			}
			rank := m.returned(p, x.id)
			x.decodeRank = m.local(rank)
			set := []body.Param{number("remote_dp_rank", rank), {Name: "remote_dp_rank_override", Value: "true"}}
			missing := []body.Param{
				text("transfer_id", id), number("remote_notify_port", int(m.PrefillNotify)),
				number("remote_handshake_port", int(m.PrefillHandshake)), number("remote_dp_size", m.Ranks),
			}
			return p.With(set, m.pods(missing, m.PrefillHosts))
		},
	}
}

// writtenBeside says what two legs are sent that are sent at once: what the prefill engine
// would tell the decode leg is said for it.
func (x *Run) writtenBeside(from, decode Endpoint) link {
	m := x.plan.MoRIIO
	id, rank := "tx"+newUUID(), rankOf(x.id, m.Ranks)
	host := hostOf(from.Address)
	fetch := params(struct {
		Prefill   bool   `json:"do_remote_prefill"`
		Decode    bool   `json:"do_remote_decode"`
		Engine    string `json:"remote_engine_id"`
		Blocks    []int  `json:"remote_block_ids"`
		Host      string `json:"remote_host"`
		Port      uint16 `json:"remote_port"`
		Notify    uint16 `json:"remote_notify_port"`
		Rank      int    `json:"remote_dp_rank"`
		Override  bool   `json:"remote_dp_rank_override"`
		Handshake uint16 `json:"remote_handshake_port"`
		Transfer  string `json:"transfer_id"`
		Tensor    int    `json:"tp_size"`
		Ranks     int    `json:"remote_dp_size"`
	}{
		true, false, net.JoinHostPort(host, strconv.Itoa(int(m.PrefillHandshake))), []int{}, host, m.PrefillHandshake, m.PrefillNotify,
		rank, true, m.PrefillHandshake, id, m.Tensor, m.Ranks,
	})
	if len(m.PrefillHosts) > 0 {
		if p, err := body.ReadParams(fetch); err == nil {
			fetch = p.With(m.pods(nil, m.PrefillHosts), nil)
		}
	}
	return link{
		prefill: x.o.Handing(x.api, x.sending(from, decode, id, rank)), decode: x.o.NIXLDecode(fetch),
		prefillRank: m.local(rank), decodeRank: m.local(rank), within: m.Within, broken: func() {},
	}
}

func number(name string, n int) body.Param { return body.Param{Name: name, Value: strconv.Itoa(n)} }

func text(name, s string) body.Param { return body.Param{Name: name, Value: string(params(s))} }
