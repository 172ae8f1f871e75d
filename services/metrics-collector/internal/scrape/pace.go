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

// listPace decides when an endpoint is asked for its models next.
type listPace struct {
	succeeded bool
	refused   int // times that it answered with something else
}

// next returns the wait after a question. An endpoint that is not there (yet) is asked
// again soon; one that answers with something else is asked less and less.
func (p *listPace) next(cfg *ModelListConfig, err error) time.Duration {
	p.succeeded = p.succeeded || err == nil
	if p.succeeded {
		return cfg.Interval.D()
	}
	switch reasonOf(err) {
	case connect, timeout, tlsFailed, credentials:
		return min(cfg.Retry.D(), cfg.Interval.D())
	}
	wait := min(cfg.Retry.D()<<min(p.refused, 16), cfg.Interval.D())
	p.refused++
	return wait
}

// backoff doubles from the interval with every failure in a row.
func (p *pace) backoff() time.Duration {
	longest := max(p.maxBackoff, p.interval)
	if p.failures > 30 {
		return longest
	}
	return min(p.interval<<p.failures, longest)
}
