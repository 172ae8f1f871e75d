package modelserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

// readRequest is what one simulated server asks another for: the blocks of a prompt, by what kv_transfer_params says of
// them. Tokens and Seed say which prompt the decode leg has, for the two legs must have the same.
type readRequest struct {
	EngineID  string
	RequestID string
	Blocks    blockIDs
	Tokens    int
	Seed      uint64
}

// read hands a prompt over.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	var q readRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	refuse, p := s.faults.drawTransfer()
	if refuse || q.EngineID != s.engineID || !s.driver.claim(&q) {
		s.driver.refused()
		(&apiError{http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("Request %q has no such blocks here.", q.RequestID)}).write(w)
		return
	}
	s.handOver(w, r, q.RequestID, q.Tokens, p)
}

// handOver lets the time of a transfer pass and gives the prompt up. It returns false if it came to no good end.
func (s *Server) handOver(w http.ResponseWriter, r *http.Request, name string, tokens int, p plan) (whole bool) {
	defer func() { s.driver.unclaim(name, whole) }() // also when the connection is dropped, which is a panic
	half := s.driver.wall(s.cfg.Transfer.Takes(tokens)) / 2
	if !sleep(r.Context(), half) || p.midway() && !p.interrupt(r.Context()) || !sleep(r.Context(), half) {
		return false
	}
	writeJSON(w, http.StatusOK, struct{}{})
	return true
}

// come asks another server for a prompt and waits until it is there.
func (s *Server) come(ctx context.Context, host string, port int, path string, q any) error {
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(mustJSON(q)))
	if err != nil {
		return fmt.Errorf("fetch a prompt: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch a prompt: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("fetch a prompt: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch a prompt: %s: %s", resp.Status, body)
	}
	return nil
}

// disaggregate adds to the request for the engine what p says of other servers. id is the HTTP request's.
func (s *Server) disaggregate(p *sampling, id string, c *call, q *engine.Request) {
	switch t := s.cfg.Transfer; {
	case t.Connector.linked():
		s.link(p, c, q)
	case t.Connector == NIXL && p.KVTransferParams.complete():
		params := p.KVTransferParams
		read := readRequest{params.RemoteEngineID, params.RemoteRequestID, params.RemoteBlockIDs, len(q.Prompt), token.Sum(q.Prompt)}
		q.Remote = len(q.Prompt)
		c.fetch = func(ctx context.Context, _ int) error {
			return s.come(ctx, params.RemoteHost, params.RemotePort, "/sim/kv/read", read)
		}
	case t.Connector == NIXL && p.KVTransferParams.remoteDecode(), t.Mode == PrefillMode:
		// Other requests may have the same id.
		c.keepAs, q.Hold = fmt.Sprintf("%s-%08x", id, s.keeps.Add(1)), true
		if t.Mode == PrefillMode {
			q.MaxTokens = 1
		}
	case t.Mode == DecodeMode:
		room := roomRequest{*p.BootstrapRoom, len(q.Prompt), token.Sum(q.Prompt)}
		q.Remote = len(q.Prompt)
		c.fetch = func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, s.driver.wall(t.MeetFor))
			defer cancel()
			return s.come(ctx, p.BootstrapHost, p.BootstrapPort, "/sim/kv/room", room)
		}
	case t.Connector == SharedStorage:
		c.stored = engine.Hashes(q.Adapter, q.Salt, q.Prompt, s.cfg.Engine.BlockSize)
		q.Remote = t.Store.match(c.stored) * s.cfg.Engine.BlockSize
		c.fetch = func(ctx context.Context, tokens int) error {
			if !sleep(ctx, s.driver.wall(t.Takes(tokens))) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// transferParams are those of an answer whose blocks are kept; nil if they are not.
func (s *Server) transferParams(c *call, tokens, rank int) *transferParams {
	switch {
	case len(c.kept) == 0:
		return nil
	case s.cfg.Transfer.Connector == MoRIIO:
		return s.writtenParams(c, tokens, rank)
	case s.cfg.Transfer.Connector != NIXL:
		return nil
	}
	host, port, err := net.SplitHostPort(s.Address())
	if err != nil {
		return nil // it has listened there
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	return &transferParams{DoRemotePrefill: true, RemoteBlockIDs: c.kept, RemoteEngineID: s.engineID, RemoteRequestID: c.keepAs,
		RemoteHost: host, RemotePort: number, TPSize: 1, RemoteNumTokens: tokens}
}
