package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/sdk/scorer/simple"
)

// parameters are what a configuration may say.
type parameters struct {
	// Label is the endpoints' label with their region.
	Label string `json:"label"`
}

// carbonType prefers endpoints in regions where power is clean now.
func carbonType(name string, g *grid) simple.Type {
	return simple.Type{
		Name:        name,
		Description: "High for endpoints in the regions whose power has the least carbon now.",
		ParametersSchema: `{"type":"object","additionalProperties":false,"properties":{
			"label":{"type":"string","minLength":1,"default":"topology.kubernetes.io/region","description":"Label with an endpoint's region."}}}`,
		Needs: simple.Needs{Labels: true},
		New: func(text []byte) (simple.Scorer, error) {
			p := parameters{Label: "topology.kubernetes.io/region"}
			if err := simple.Decode(text, &p); err != nil {
				return nil, err
			}
			if p.Label == "" {
				return nil, simple.Fault{Key: "label", Message: "it must not be empty"}
			}
			return carbon{p, g}, nil
		},
	}
}

// carbon is one instance.
type carbon struct {
	parameters
	grid *grid
}

// Parameters tells which hold.
func (c carbon) Parameters() any { return c.parameters }

// Score spreads the candidates from 1, the cleanest, to 0, the dirtiest.
func (c carbon) Score(_ context.Context, r simple.Request) (simple.Scores, error) {
	now := c.grid.now.Load()
	s := r.NewScores()
	s.StateAge = time.Since(now.read)
	grams := make([]float64, len(r.Candidates))
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, e := range r.Candidates {
		region, _ := e.Label(c.Label)
		g, known := now.grams[region]
		if !known {
			s.Values[i] = simple.Abstain
			continue
		}
		grams[i], lowest, highest = g, min(lowest, g), max(highest, g)
	}
	if r.Explain {
		s.Texts = make([]string, len(r.Candidates))
	}
	for i := range s.Values {
		if s.Values[i] == simple.Abstain {
			continue
		}
		s.Values[i] = 1
		if highest > lowest {
			s.Values[i] = float32((highest - grams[i]) / (highest - lowest))
		}
		if r.Explain {
			s.Texts[i] = fmt.Sprintf("%g gCO2/kWh, pool %g–%g", grams[i], lowest, highest)
		}
	}
	return s, nil
}

// grid is the carbon intensity of each region's power, from a file that something else
// keeps up to date.
type grid struct {
	path string
	now  atomic.Pointer[intensities]
}

type intensities struct {
	grams map[string]float64 // CO2 per kWh, by region
	read  time.Time
}

// read takes the file into use; if it is wrong, what was read before stays.
func (g *grid) read() error {
	text, err := os.ReadFile(g.path)
	if err != nil {
		return err
	}
	var grams map[string]float64
	if err := json.Unmarshal(text, &grams); err != nil {
		return fmt.Errorf("%s: want a JSON object of regions and gCO2/kWh: %w", g.path, err)
	}
	for region, v := range grams {
		if v < 0 {
			return fmt.Errorf("%s: region %s has %g gCO2/kWh", g.path, region, v)
		}
	}
	g.now.Store(&intensities{grams, time.Now()})
	return nil
}

// follow reads the file every period until ctx ends.
func (g *grid) follow(ctx context.Context, period time.Duration, failed func(error)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := g.read(); err != nil {
				failed(err)
			}
		}
	}
}
