package pins

import "time"

const (
	// freshFor is the part of the TTL for which a key that was written is not written
	// again to the same effect. So a key lives for 9/10 of the TTL at least after its
	// prompt was last served, and a conversation costs its new keys.
	freshFor = 10
	// mostFresh bounds the memory, at some 100 bytes each.
	mostFresh = 1 << 17
)

// fresh is the keys that were written lately, in two generations. Not safe for concurrent
// use.
type fresh struct {
	young, old map[string]string // endpoint by key
	turned     time.Time
}

// is says whether a key was written lately to name the endpoint.
func (f *fresh) is(key, endpoint string) bool {
	if e, ok := f.young[key]; ok {
		return e == endpoint
	}
	return f.old[key] == endpoint
}

// note notes keys that were written.
func (f *fresh) note(keys []string, endpoint string) {
	for _, k := range keys {
		f.young[k] = endpoint
	}
}

// turn lets go of what was written too long ago.
func (f *fresh) turn(now time.Time, ttl time.Duration) {
	if now.Sub(f.turned) < ttl/(2*freshFor) && len(f.young) < mostFresh/2 {
		return
	}
	f.old, f.young, f.turned = f.young, make(map[string]string), now
}

// clear forgets everything: somebody else may have written, or Redis lost it.
func (f *fresh) clear() { f.old, f.young = nil, make(map[string]string) }
