package rpc

import "time"

// SetPatience shortens the time that open calls have after the stop has begun.
func (s *Server) SetPatience(d time.Duration) { s.patient = d }

// PingEvery is how often a connection with open streams is pinged.
const PingEvery = pingEvery
