package scrape

import "time"

// pace decides when an endpoint is scraped next. The zero value has seen no failure.
type pace struct {
	interval, maxBackoff, maxInterval time.Duration
	maxShare, jitter                  float64

	failures int // in a row
}

// next returns how long to wait from the end of a scrape to the beginning of the next.
// took is how long the endpoint was busy with it: 0 if it was never reached. random is
// uniform in 0..1.
func (p *pace) next(took time.Duration, ok bool, random float64) time.Duration {
	wait := p.interval - took
	if share := time.Duration(float64(took) * (1/p.maxShare - 1)); share > wait {
		wait = min(share, max(p.maxInterval, p.interval))
	}
	if ok {
		p.failures = 0
	} else {
		wait = max(wait, p.backoff())
		p.failures++
	}
	wait += time.Duration(float64(wait) * p.jitter * (2*random - 1))
	return max(wait, 0)
}

// backoff doubles from the interval with every failure in a row.
func (p *pace) backoff() time.Duration {
	longest := max(p.maxBackoff, p.interval)
	if p.failures > 30 {
		return longest
	}
	return min(p.interval<<p.failures, longest)
}
