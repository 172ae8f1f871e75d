package app

import (
	"context"
	"errors"
	"time"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/scrape"
)

const (
	scrapeCheck   = "scrape"
	readyInterval = 50 * time.Millisecond
)

var errNotScraped = errors.New("not every endpoint of this collector has been scraped once")

// readiness makes the service ready once each of its own endpoints has been scraped
// once, well or badly. It stays ready: endpoints that come later are no reason to take
// a collector out.
func readiness(health *telemetry.Health, f *fleet.Fleet, s *scrape.Scraper) run.Part {
	health.Set(scrapeCheck, errNotScraped)
	return func(ctx context.Context, ready func()) error {
		ready()
		ticker := time.NewTicker(readyInterval)
		defer ticker.Stop()
		for !scrapedOnce(f, s) {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
		health.Set(scrapeCheck, nil)
		<-ctx.Done()
		return nil
	}
}

func scrapedOnce(f *fleet.Fleet, s *scrape.Scraper) bool {
	v := f.View()
	if v == nil {
		return false
	}
	attempted, assigned := s.Attempted()
	return assigned >= len(v.Owned) && attempted == assigned
}
