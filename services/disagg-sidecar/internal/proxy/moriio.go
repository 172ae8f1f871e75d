package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/conf"
)

// P2PConfig is where engines hand out what is in the tier of their OffloadingConnector.
type P2PConfig struct {
	// Port is that of data-parallel rank 0; each further one has the next. Default 7777.
	Port uint16 `yaml:"port"`
	// Pull says that the engines have an OffloadingConnector beside their NixlConnector, so
	// that they can be told to pull what others have cached; those of the connector offloading
	// always can. Default false.
	Pull bool `yaml:"pull"`
}

// MoRIIOConfig is MoRI-IO's write mode: the engine that prefills writes into the one beside
// the sidecar. All engines of the pool must be alike in what is said here.
type MoRIIOConfig struct {
	// Write switches it on; only with the connector nixlv2. Default false.
	Write bool `yaml:"write"`
	// Parallel sends both legs at once. The answer begins when the prefill leg has done its
	// work. Default false: the decode leg is sent then.
	Parallel bool `yaml:"parallel"`
	// Within is how long the answer waits for the prefill leg, with parallel. Default 30 s.
	Within conf.Duration `yaml:"within"`
	// LocalIP is the IP address, or a name, under which other engines find the one beside.
	// Default: decode.podIP, or the environment variable POD_IP.
	LocalIP string `yaml:"localIP"`
	// Ports of rank 0 at which engines shake hands, and at which they hear of what was
	// written. Defaults 6301 and 61005.
	PrefillHandshakePort uint16 `yaml:"prefillHandshakePort"`
	PrefillNotifyPort    uint16 `yaml:"prefillNotifyPort"`
	DecodeHandshakePort  uint16 `yaml:"decodeHandshakePort"`
	DecodeNotifyPort     uint16 `yaml:"decodeNotifyPort"`
	// TensorRanks is how many tensor-parallel ranks an engine has. Default 1.
	TensorRanks int `yaml:"tensorRanks"`
	// Ranks is how many data-parallel ranks there are in all pods together, LocalRanks how
	// many in one; 0: all. Both legs of a request go to the same one. Defaults 1 and 0.
	Ranks      int `yaml:"ranks"`
	LocalRanks int `yaml:"localRanks"`
	// PrefillHosts and DecodeHosts are the IP addresses, or names, of the pods in the order of
	// their ranks, where the ranks are in several. Names are looked up every 30 s. Default:
	// none.
	PrefillHosts []string `yaml:"prefillHosts"`
	DecodeHosts  []string `yaml:"decodeHosts"`
}

func defaultMoRIIO() MoRIIOConfig {
	d := disagg.DefaultMoRIIO()
	return MoRIIOConfig{
		Within: conf.Duration(d.Within), PrefillHandshakePort: d.PrefillHandshake, PrefillNotifyPort: d.PrefillNotify,
		DecodeHandshakePort: d.DecodeHandshake, DecodeNotifyPort: d.DecodeNotify, TensorRanks: d.Tensor, Ranks: d.Ranks,
	}
}

// podIP returns the host under which others know this pod; "" if nobody has said.
func (c DecodeConfig) podIP() string { return cmp.Or(c.PodIP, os.Getenv("POD_IP")) }

// mode returns it as package disagg has it; nil if it is off.
func (c *MoRIIOConfig) mode(podIP string) *disagg.MoRIIO {
	if !c.Write {
		return nil
	}
	return &disagg.MoRIIO{
		Parallel: c.Parallel, Within: c.Within.D(), DecodeHost: cmp.Or(c.LocalIP, podIP),
		PrefillHandshake: c.PrefillHandshakePort, PrefillNotify: c.PrefillNotifyPort,
		DecodeHandshake: c.DecodeHandshakePort, DecodeNotify: c.DecodeNotifyPort,
		Tensor: c.TensorRanks, Ranks: c.Ranks, Local: c.LocalRanks, PrefillHosts: c.PrefillHosts, DecodeHosts: c.DecodeHosts,
	}
}

// transfers returns what is wrong with how engines reach each other.
func (c *PrefillConfig) transfers(d DecodeConfig) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	kind := disagg.Connector(c.Connector)
	if last := int(c.P2P.Port) + max(0, d.Ranks-1); c.P2P.Port == 0 || last > 65535 {
		fault("prefill.p2p.port: %d is no port, or has none for the last of %d ranks", c.P2P.Port, d.Ranks)
	}
	if c.P2P.Pull && !disagg.Pulls(kind, true) {
		fault("prefill.p2p.pull: engines of the connector %s cannot pull from others; those of %s and %s can", kind, disagg.NIXL, disagg.Offloading)
	}
	m := c.MoRIIO.mode(d.podIP())
	switch {
	case c.MoRIIO.Parallel && m == nil:
		fault("prefill.moriio.parallel: needs prefill.moriio.write")
	case m == nil:
	case d.ChunkSize > 0:
		fault("decode.chunkSize: not with prefill.moriio.write: later rounds are prefilled by the engine beside, which may wait for others to write")
	case kind != disagg.NIXL:
		fault("prefill.moriio.write: needs the connector %s, not %s", disagg.NIXL, kind)
	case m.DecodeHost == "":
		fault("prefill.moriio.localIP: not set, and neither are decode.podIP and POD_IP; the engine that prefills must find the one beside")
	default:
		faults = append(faults, conf.Prefix("prefill.moriio", m.Validate()))
	}
	return errors.Join(faults...)
}
