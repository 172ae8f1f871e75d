package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// addressIndex finds a table's endpoints by host.
type addressIndex struct {
	table  *roster.Table
	byHost map[string][]int32 // by canonicalHost
}

func newAddressIndex(t *roster.Table) *addressIndex {
	ix := &addressIndex{table: t, byHost: make(map[string][]int32, t.Len())}
	for i := range t.Endpoints {
		h := canonicalHost(t.Endpoints[i].Host)
		ix.byHost[h] = append(ix.byHost[h], int32(i)) //nolint:gosec // at most roster.MaxEndpoints
	}
	return ix
}

// positions returns the endpoints that the subset allows, ascending. Entries that
// name nobody, or are no address, allow nobody.
func (ix *addressIndex) positions(s *Subset) []int32 {
	allowed := make([]int32, 0, len(s.Addresses))
	for _, entry := range s.Addresses {
		// Some proxies put a whole list into one entry.
		for address := range strings.SplitSeq(entry, ",") {
			host, port, ok := splitAddress(strings.TrimSpace(address))
			if !ok {
				continue
			}
			for _, pos := range ix.byHost[host] {
				if port == 0 || ix.table.Endpoints[pos].Port == port {
					allowed = append(allowed, pos)
				}
			}
		}
	}
	slices.Sort(allowed)
	return slices.Compact(allowed)
}

// splitAddress reads "ip", "ip:port", "[ip6]:port", "[ip6]", bare IPv6, or the same
// with a host name. Port 0 stands for any. A bare IPv6 address is recognised before
// a port is looked for, so "fd00::10" is not host "fd00:" with a port.
func splitAddress(a string) (host string, port uint16, ok bool) {
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(a, "["), "]")); err == nil {
		return ip.Unmap().String(), 0, true
	}
	i := strings.LastIndexByte(a, ':')
	if i < 0 {
		return canonicalHost(a), 0, a != ""
	}
	p, err := strconv.ParseUint(a[i+1:], 10, 16)
	if err != nil || p == 0 {
		return "", 0, false
	}
	h := a[:i]
	if strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]") {
		h = h[1 : len(h)-1]
	} else if strings.Contains(h, ":") {
		return "", 0, false
	}
	return canonicalHost(h), uint16(p), h != ""
}

// canonicalHost makes different spellings of a host equal.
func canonicalHost(h string) string {
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}
