package filter

import (
	"net/netip"
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// HeaderType is the type name of Header.
const HeaderType = "header-based-testing-filter"

// SelectionHeader is the request header that Header goes by.
const SelectionHeader = "test-epp-endpoint-selection"

// Header keeps the candidates that the request itself names in a header: a comma list
// of ip or ip:port, IPv6 as it is or as [ip]:port. An entry without a port stands for
// every port of the address. It is for conformance tests: a client that may send the
// header chooses its endpoint. Nobody stays without the header, which is not for load.
//
// Candidates are always in table order, so the order in the header is lost; which of
// several is picked is the picker's business.
type Header struct{ name string }

// NewHeader returns the filter.
func NewHeader(name string) *Header { return &Header{name: name} }

// Name returns the plug-in's name in the configuration.
func (f *Header) Name() string { return f.name }

// Filter implements route.Filter.
func (f *Header) Filter(c *route.Cycle, in []int32) []int32 {
	var wanted []netip.AddrPort // port 0: any
	for entry := range strings.SplitSeq(c.Request.Headers.Get(SelectionHeader), ",") {
		if a, ok := address(strings.TrimSpace(entry)); ok {
			wanted = append(wanted, a)
		}
	}
	if len(wanted) == 0 {
		return in[:0]
	}
	return keep(in, func(pos int32) bool {
		e := &c.Snapshot.Table.Endpoints[pos]
		host, err := netip.ParseAddr(e.Host)
		if err != nil {
			return false
		}
		for _, w := range wanted {
			if w.Addr() == host.Unmap() && (w.Port() == 0 || w.Port() == e.Port) {
				return true
			}
		}
		return false
	})
}

// address reads ip or ip:port; the port is 0 if there is none.
func address(s string) (netip.AddrPort, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0), true
	}
	ap, err := netip.ParseAddrPort(s)
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), err == nil && ap.Port() != 0
}
