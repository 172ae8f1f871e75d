package extproc

import (
	"slices"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// sayWhere puts the endpoints into the answer to the request, in the header and in the
// metadata, and removes what the client must not say.
func (x *exchange) sayWhere(d *route.Decision) {
	s, c := x.s, &x.change
	to := d.AddressOf(d.Endpoint)
	if more := s.fallbacks(d); len(more) > 0 {
		b := append(make([]byte, 0, 64), to...)
		for _, e := range more {
			b = append(append(b, ','), e.Address...)
		}
		to = string(b)
	}
	c.Set = append(c.Set, wire.Header{Name: s.cfg.DestinationHeader, Value: to})
	if x.head.newID {
		c.Set = append(c.Set, wire.Header{Name: edge.HeaderRequestID, Value: x.head.id})
	}
	c.Remove = x.head.stripped(s.strip)
	for _, h := range edge.StageHeaders(d) {
		c.Set = append(c.Set, wire.Header{Name: h.Name, Value: h.Value})
		c.Remove = without(c.Remove, h.Name)
	}
	if x.rewritten {
		c.Remove = slices.Concat(c.Remove, digests)
	}
	c.ClearRouteCache = true
	c.Metadata = wire.Metadata{Namespace: s.cfg.DestinationNamespace, Key: s.cfg.DestinationHeader, Value: to}
}

// without returns the names but one, in a new slice.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// digests are headers that say what the bytes of a body are, which they are no more once
// its model is another.
var digests = []string{"content-digest", "repr-digest", "digest", "content-md5"}

// stripped returns the headers to remove: those that are always removed, and those of
// the request that look like ours.
func (h *head) stripped(always []string) []string {
	if len(h.own) == 0 {
		return always
	}
	return append(always[:len(always):len(always)], h.own...)
}

// fallbacks are the endpoints that are named after the pick.
func (s *Server) fallbacks(d *route.Decision) []*roster.Endpoint {
	if d.Plan != nil && d.Plan.PrimaryPort != 0 {
		return nil // the header of the rank is the pick's alone
	}
	n := s.cfg.Fallbacks
	if n < 0 {
		n = wanted(d) - 1
	}
	return d.Fallbacks[:max(0, min(n, len(d.Fallbacks)))]
}

// wanted returns how many endpoints the primary profile's picker is asked for, at least
// 1.
func wanted(d *route.Decision) int {
	for _, r := range d.Results {
		if pos, ok := r.Best(); ok && &d.Snapshot.Table.Endpoints[pos] == d.Endpoint {
			return max(1, r.Profile.Picker.Max())
		}
	}
	return 1
}
