package modelserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// change is the body of POST /sim/faults: the faults to change, others staying as they are, and what to do once.
type change struct {
	*Faults
	RefuseFor        Duration `json:"refuseFor,omitempty"`
	ResetPrefixCache bool     `json:"resetPrefixCache,omitempty"`
}

func (s *Server) showFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Faults())
}

func (s *Server) changeFaults(w http.ResponseWriter, r *http.Request) {
	var body json.RawMessage
	if fault := readJSON(w, r, &body); fault != nil {
		fault.write(w)
		return
	}
	f := s.Faults()
	c := change{Faults: &f}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		badRequest("", "The faults are not understood: %v.", err).write(w)
		return
	}
	if err := s.SetFaults(f); err != nil {
		badRequest("", "%v", err).write(w)
		return
	}
	if c.ResetPrefixCache {
		s.ResetPrefixCache()
	}
	writeJSON(w, http.StatusOK, f)
	if c.RefuseFor > 0 {
		s.RefuseFor(time.Duration(c.RefuseFor))
	}
}

func (s *Server) clearFaults(w http.ResponseWriter, _ *http.Request) {
	// The zero value is valid.
	_ = s.SetFaults(Faults{})
	writeJSON(w, http.StatusOK, Faults{})
}

func (s *Server) showStats(w http.ResponseWriter, _ *http.Request) {
	stats := s.Stats()
	writeJSON(w, http.StatusOK, struct {
		Server string
		engine.Stats
		KVUsage, HitRate float64
		Transfers        Transfers
	}{s.name(), stats, stats.KVUsage(), stats.HitRate(), s.Transfers()})
}

func (s *Server) resetCache(w http.ResponseWriter, _ *http.Request) {
	s.ResetPrefixCache()
	w.WriteHeader(http.StatusOK)
}
