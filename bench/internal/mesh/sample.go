package mesh

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

// Subject is an endpoint picker under measurement: where it is asked, and which
// processes it consists of.
type Subject struct {
	// Name names it in results.
	Name string
	// Address is its ext_proc address; with a prefix "tls://" over TLS.
	Address string
	// Endpoints are the right answers; nil if it gives none.
	Endpoints []string
	// Parts are the processes.
	Parts []Part
}

// Part is one process of a subject.
type Part struct {
	// Name names it; Counted says whether its CPU is part of what a pick costs.
	Name    string
	Counted bool
	// PID is its number.
	PID int
	// Admin is "host:port" of its metrics page; empty if there is none.
	Admin string
	// Monitor is "host:port" of a NATS server's monitoring pages; empty for all else.
	Monitor string
}

// Sample is what a part had used at one time.
type Sample struct {
	Usage procstat.Process
	// Allocations and Collections are the heap objects made and the garbage collections
	// done since it began, from its metrics page; 0 without one.
	Allocations, Collections float64
	// Calls are the calls of scorers that a router made or skipped, and Answered those
	// that were answered in time.
	Calls, Answered float64
	// Traffic is what a NATS server has taken and given; zero for all else.
	Traffic traffic.Server
}

// Minus is what was used since an earlier sample. Memory is that of now.
func (s Sample) Minus(before Sample) Sample {
	return Sample{
		Usage: s.Usage.Minus(before.Usage), Allocations: s.Allocations - before.Allocations, Collections: s.Collections - before.Collections,
		Calls: s.Calls - before.Calls, Answered: s.Answered - before.Answered, Traffic: s.Traffic.Minus(before.Traffic),
	}
}

// Sample reads what every part has used so far, in the order of Parts. Pages are read
// before clocks, so that reading them counts as little as can be.
func (s *Subject) Sample(ctx context.Context, first bool) ([]Sample, error) {
	all := make([]Sample, len(s.Parts))
	clocks := func() (err error) {
		for i, p := range s.Parts {
			if all[i].Usage, err = procstat.ReadProcess(p.PID); err != nil {
				return fmt.Errorf("%s of %s: %w", p.Name, s.Name, err)
			}
		}
		return nil
	}
	if !first { // the window ends with the clocks
		if err := clocks(); err != nil {
			return nil, err
		}
	}
	for i, p := range s.Parts {
		if p.Monitor != "" {
			var err error
			if all[i].Traffic, err = traffic.Read(ctx, p.Monitor); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", p.Name, s.Name, err)
			}
		}
		if p.Admin == "" {
			continue
		}
		if err := readPage(ctx, p.Admin, &all[i]); err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", p.Name, err)
		}
	}
	if first {
		return all, clocks()
	}
	return all, nil
}

func readPage(ctx context.Context, address string, into *Sample) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "pointsman_router_scorer_calls_total{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			into.Calls += n
			if strings.Contains(name, `verdict="scored"`) || strings.Contains(name, `verdict="abstained"`) {
				into.Answered += n
			}
		}
		switch name {
		case "go_memstats_mallocs_total":
			into.Allocations, err = strconv.ParseFloat(value, 64)
		case "go_gc_duration_seconds_count":
			into.Collections, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
