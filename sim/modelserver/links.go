package modelserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

// linkParams are the kv_transfer_params of vLLM's connectors whose legs are linked by an id that whoever divides the
// request makes up.
type linkParams struct {
	// Mooncake's and MoRI-IO's.
	TransferID          string `json:"transfer_id,omitempty"`
	RemoteBootstrapAddr string `json:"remote_bootstrap_addr,omitempty"`
	RemoteHandshakePort int    `json:"remote_handshake_port,omitempty"`
	RemoteNotifyPort    int    `json:"remote_notify_port,omitempty"`
	RemoteDPRank        *int   `json:"remote_dp_rank,omitempty"`
	RemoteDPSize        int    `json:"remote_dp_size,omitempty"`
	// The OffloadingConnector's.
	RemoteDecoder   *storedParams `json:"remote_decoder,omitempty"`
	RemotePrefiller *storedParams `json:"remote_prefiller,omitempty"`
	RemoteKVSource  *storedParams `json:"remote_kv_source,omitempty"`
}

// storedParams is where a prompt is stored, and by which id.
type storedParams struct {
	KVRequestID string `json:"kv_request_id"`
	RemoteHost  string `json:"remote_host,omitempty"`
	RemotePort  int    `json:"remote_port,omitempty"`
}

// linked says whether legs are linked by an id.
func (c Connector) linked() bool { return c == Mooncake || c == Offloading || c == MoRIIO }

// engineOf is the id of the engine of a data-parallel rank.
func (s *Server) engineOf(rank int) string {
	if s.cfg.Transfer.Ranks == 1 {
		return s.engineID
	}
	return fmt.Sprintf("%s_dp%d", s.engineID, rank)
}

// rank is the data-parallel rank that a request names; 0 if it names none, negative if there is no such.
func (s *Server) rank(r *http.Request) int {
	text := r.Header.Get("X-Data-Parallel-Rank")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= s.cfg.Transfer.Ranks {
		return -1
	}
	return n
}

// linkFault is what is wrong with a request for servers whose legs are linked. It notes in p what begin needs.
func (s *Server) linkFault(r *http.Request, p *sampling, adapter string, prompts [][]token.Token) *apiError {
	if !s.cfg.Transfer.Connector.linked() {
		return nil
	}
	if p.rank = s.rank(r); p.rank < 0 {
		return badRequest("data_parallel_rank", "data_parallel_rank %s is out of range [0, %d).", r.Header.Get("X-Data-Parallel-Rank"), s.cfg.Transfer.Ranks)
	}
	k := p.KVTransferParams
	if k == nil {
		return nil
	}
	if s.cfg.Transfer.Connector == MoRIIO && (!strings.HasPrefix(k.TransferID, "tx") || k.RemoteHost == "" || k.RemoteHandshakePort == 0 || k.RemoteNotifyPort == 0) {
		return badRequest("kv_transfer_params", "MoRI-IO needs transfer_id, remote_host, remote_handshake_port and remote_notify_port.")
	}
	if source := k.RemoteKVSource; source != nil && s.cfg.Transfer.Connector == Offloading && len(prompts) == 1 {
		p.matched = s.match(r.Context(), source, engine.Hashes(adapter, p.CacheSalt, prompts[0], s.cfg.Engine.BlockSize))
	}
	return nil
}

// link adds to the request for the engine what p says of the other leg.
func (s *Server) link(p *sampling, c *call, q *engine.Request) {
	t := s.cfg.Transfer
	if t.Connector == Offloading {
		c.stored = engine.Hashes(q.Adapter, q.Salt, q.Prompt, s.cfg.Engine.BlockSize)
		if p.matched > 0 {
			q.Remote = p.matched * s.cfg.Engine.BlockSize
			c.fetch = func(ctx context.Context, tokens int) error {
				if !sleep(ctx, s.driver.wall(t.Takes(tokens))) {
					return ctx.Err()
				}
				return nil
			}
		}
	}
	k := p.KVTransferParams
	switch {
	case k == nil:
	case k.RemoteDecoder != nil:
		s.keepFor(k.RemoteDecoder.KVRequestID, p.rank, c, q)
	case k.RemotePrefiller != nil:
		from := k.RemotePrefiller
		s.fetchLinked(net.JoinHostPort(from.RemoteHost, strconv.Itoa(from.RemotePort)), linkRequest{Engine: "", ID: from.KVRequestID}, c, q)
	case k.DoRemoteDecode && k.TransferID != "":
		s.keepFor(k.TransferID, p.rank, c, q)
	case !k.DoRemotePrefill || k.TransferID == "":
	case t.Connector == MoRIIO:
		s.fetchLinked(net.JoinHostPort(k.RemoteHost, strconv.Itoa(k.RemoteHandshakePort)), linkRequest{ID: k.TransferID}, c, q)
	default:
		if u, err := url.Parse(k.RemoteBootstrapAddr); err == nil && k.RemoteEngineID != "" {
			s.fetchLinked(u.Host, linkRequest{Engine: k.RemoteEngineID, ID: k.TransferID}, c, q)
		}
	}
}

// linkName is what a prompt is kept as: Mooncake's decode engines name the engine, too.
func (s *Server) linkName(id string, rank int) string {
	if s.cfg.Transfer.Connector == Mooncake {
		return s.engineOf(rank) + "/" + id
	}
	return "/" + id
}

// keepFor keeps the prompt for the leg that comes with the id.
func (s *Server) keepFor(id string, rank int, c *call, q *engine.Request) {
	c.keepAs, c.transfer, q.Hold = s.linkName(id, rank), id, true
}

// linkRequest is what a server comes with to fetch a prompt.
type linkRequest struct {
	Engine, ID string
	Tokens     int
	Seed       uint64
}

func (s *Server) fetchLinked(from string, ask linkRequest, c *call, q *engine.Request) {
	host, text, err := net.SplitHostPort(from)
	port, wrong := strconv.Atoi(text)
	if err != nil || wrong != nil {
		return // it is served as if it said nothing
	}
	ask.Tokens, ask.Seed, q.Remote = len(q.Prompt), token.Sum(q.Prompt), len(q.Prompt)
	c.fetch = func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithTimeout(ctx, s.driver.wall(s.cfg.Transfer.MeetFor))
		defer cancel()
		return s.come(ctx, host, port, "/sim/kv/linked", ask)
	}
}

// linked hands a prompt over to whoever comes with its id, as soon as it is computed.
func (s *Server) linked(w http.ResponseWriter, r *http.Request) {
	var q linkRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	refuse, p := s.faults.drawTransfer()
	name := q.Engine + "/" + q.ID
	if refuse || !s.cfg.Transfer.Connector.linked() || !s.driver.awaitHeld(r.Context(), name, s.driver.wall(s.cfg.Transfer.MeetFor)) || !s.driver.claimLinked(name, &q) {
		s.driver.refused()
		(&apiError{http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("There is no prompt %q here.", name)}).write(w)
		return
	}
	s.handOver(w, r, name, q.Tokens, p)
}

// awaitHeld waits until a prompt of that name is kept.
func (d *driver) awaitHeld(ctx context.Context, name string, limit time.Duration) bool {
	d.mu.Lock()
	if d.held[name] != nil {
		d.mu.Unlock()
		return true
	}
	if d.awaited == nil {
		d.awaited = make(map[string][]chan struct{})
	}
	there := make(chan struct{})
	d.awaited[name] = append(d.awaited[name], there)
	d.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-there:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range d.awaited[name] {
		if c == there {
			d.awaited[name] = append(d.awaited[name][:i], d.awaited[name][i+1:]...)
		}
	}
	if len(d.awaited[name]) == 0 {
		delete(d.awaited, name)
	}
	return false
}

// tell tells those who wait for a prompt that it is there. d.mu is held.
func (d *driver) tell(name string) {
	for _, c := range d.awaited[name] {
		close(c)
	}
	delete(d.awaited, name)
}

// claimLinked lets somebody read a prompt if it is the one that is meant.
func (d *driver) claimLinked(name string, q *linkRequest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[name]
	if h == nil || h.reading || h.tokens != q.Tokens || h.seed != q.Seed {
		return false
	}
	h.reading = true
	return true
}

// query is Mooncake's bootstrap server, which tells the engine of each data-parallel rank.
func (s *Server) query(w http.ResponseWriter, _ *http.Request) {
	if f := s.faults.get(); f.BootstrapStatus != 0 && f.BootstrapStatus != http.StatusOK {
		(&apiError{f.BootstrapStatus, "InternalServerError", "", "The server was told to fail."}).write(w)
		return
	}
	type entry struct {
		EngineID   string                       `json:"engine_id"`
		WorkerAddr map[string]map[string]string `json:"worker_addr"`
	}
	out := make(map[string]entry)
	for rank := range s.cfg.Transfer.Ranks {
		out[strconv.Itoa(rank)] = entry{s.engineOf(rank), map[string]map[string]string{"0": {"0": "tcp://" + s.Address()}}}
	}
	writeJSON(w, http.StatusOK, out)
}

// matchRequest asks how much of a prompt is in a server's tier.
type matchRequest struct{ Hashes []uint64 }

// matchAnswer is how many blocks from the first on.
type matchAnswer struct{ Blocks int }

// matches tells how much of a prompt is in the tier, which the other server then has.
func (s *Server) matches(w http.ResponseWriter, r *http.Request) {
	var q matchRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	refuse, _ := s.faults.drawTransfer()
	if refuse || s.cfg.Transfer.Connector != Offloading {
		s.driver.refused()
		(&apiError{http.StatusNotFound, "NotFoundError", "", "There is no tier here."}).write(w)
		return
	}
	n := s.cfg.Transfer.Store.match(q.Hashes)
	if n > 0 {
		s.driver.served()
	}
	writeJSON(w, http.StatusOK, matchAnswer{n})
}

func (d *driver) served() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tally.Served++
}

// match asks another server how much of a prompt it has. A failure is as if it had nothing: the prompt is computed here.
func (s *Server) match(ctx context.Context, at *storedParams, hashes []uint64) int {
	to := "http://" + net.JoinHostPort(at.RemoteHost, strconv.Itoa(at.RemotePort)) + "/sim/kv/match"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(string(mustJSON(matchRequest{hashes}))))
	if err != nil {
		return 0
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var got matchAnswer
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&got) != nil || got.Blocks < 0 || got.Blocks > len(hashes) {
		return 0
	}
	return got.Blocks
}

// writtenParams are what a MoRI-IO prefill server answers: where it is.
func (s *Server) writtenParams(c *call, tokens, rank int) *transferParams {
	host, port, err := net.SplitHostPort(s.BootstrapAddress())
	if err != nil {
		return nil // it has listened there
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	return &transferParams{DoRemotePrefill: true, RemoteBlockIDs: c.kept, RemoteEngineID: net.JoinHostPort(host, port), RemoteRequestID: c.keepAs,
		RemoteHost: host, RemotePort: number, TPSize: 1, RemoteNumTokens: tokens, linkParams: linkParams{
			TransferID: c.transfer, RemoteHandshakePort: number, RemoteNotifyPort: number, RemoteDPRank: &rank, RemoteDPSize: s.cfg.Transfer.Ranks,
		}}
}
