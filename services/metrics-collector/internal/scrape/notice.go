package scrape

import "time"

// noticeGap is the least time between two log lines about one endpoint's failing, for
// endpoints that keep failing and recovering.
const noticeGap = 30 * time.Second

// notice decides when an endpoint's state is told to people: when it changes.
type notice struct {
	told bool      // that it fails
	last time.Time // when that was told
}

// failed returns true if the failure is to be told: at its first scrape or, if that
// is too soon after the last telling, at the first one that is not.
func (n *notice) failed(now time.Time) bool {
	if n.told || !n.last.IsZero() && now.Sub(n.last) < noticeGap {
		return false
	}
	n.told, n.last = true, now
	return true
}

// well returns true if the recovery is to be told.
func (n *notice) well() bool {
	told := n.told
	n.told = false
	return told
}
