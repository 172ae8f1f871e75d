package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// patience is how long a monitoring page may take.
const patience = 5 * time.Second

// Server is what a NATS server has taken from its clients and given to them since it
// began. A message that goes to ten subscribers is taken once and given ten times.
type Server struct {
	MessagesIn  float64 `json:"in_msgs"`
	MessagesOut float64 `json:"out_msgs"`
	BytesIn     float64 `json:"in_bytes"`
	BytesOut    float64 `json:"out_bytes"`
}

// Minus is what has passed since an earlier sample.
func (s Server) Minus(before Server) Server {
	return Server{s.MessagesIn - before.MessagesIn, s.MessagesOut - before.MessagesOut, s.BytesIn - before.BytesIn, s.BytesOut - before.BytesOut}
}

// Read reads the counts of the server whose monitoring pages are at "host:port".
func Read(ctx context.Context, monitor string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	url := "http://" + monitor + "/varz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Server{}, fmt.Errorf("monitor NATS: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Server{}, fmt.Errorf("monitor NATS: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Server{}, fmt.Errorf("monitor NATS: %s answers %s", url, resp.Status)
	}
	var s Server
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return Server{}, fmt.Errorf("monitor NATS: %s: %w", url, err)
	}
	return s, nil
}
