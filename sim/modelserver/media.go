package modelserver

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
)

// MediaRole says what a server has to do with what is encoded of images, audio and video elsewhere (vLLM's ec_role).
type MediaRole string

// The roles.
const (
	// NoRole: a server encodes by itself what it is sent.
	NoRole MediaRole = ""
	// MediaProducer keeps what it has encoded for others, and says in the ec_transfer_params of its answers where that is.
	MediaProducer MediaRole = "producer"
	// MediaConsumer has no encoder: for each image, audio or video of a chat the request must say in ec_transfer_params where
	// it was encoded, and it is fetched from there. A prompt that was computed elsewhere needs none.
	MediaConsumer MediaRole = "consumer"
)

// mediaKept is how many parts a producer keeps; the oldest go.
const mediaKept = 4096

// mediaParams is where one part was encoded. vLLM's ECCPUConnector names it in this way.
type mediaParams struct {
	PeerHost  string `json:"peer_host"`
	PeerPort  int    `json:"peer_port"`
	SizeBytes int    `json:"size_bytes"`
}

// mediaBytes is how large a part is encoded; it is only told.
const mediaBytes = 1 << 20

// mediaRead is what one server asks another for.
type mediaRead struct{ Hash string }

// media are the parts of a chat that are no text, by their hashes.
func (r *chatRequest) media() []string {
	var out []string
	seen := make(map[string]bool)
	for _, m := range r.Messages {
		for _, p := range m.Content {
			if h := mediaHash(p.media); p.media != nil && !seen[h] {
				seen[h] = true
				out = append(out, h)
			}
		}
	}
	return out
}

func mediaHash(part []byte) string {
	h := fnv.New64a()
	h.Write(part)
	return fmt.Sprintf("%016x", h.Sum64())
}

// number is the hash as a store has it.
func number(hash string) uint64 {
	n, _ := strconv.ParseUint(hash, 16, 64)
	return n
}

// fetchMedia brings what was encoded elsewhere.
func (s *Server) fetchMedia(ctx context.Context, p *sampling) *apiError {
	if s.cfg.MediaRole != MediaConsumer || p.KVTransferParams.complete() {
		return nil
	}
	for _, h := range p.media {
		if at, ok := p.ECTransferParams[h]; !ok || at.PeerHost == "" || at.PeerPort == 0 {
			return badRequest("ec_transfer_params", "This server does not encode: ec_transfer_params must say where %s was encoded.", h)
		}
	}
	for _, h := range p.media {
		at := p.ECTransferParams[h]
		err := s.come(ctx, at.PeerHost, at.PeerPort, "/sim/ec/read", mediaRead{h})
		s.driver.noteMedia(err)
		if err != nil {
			return lostPrompt()
		}
	}
	return nil
}

func (d *driver) noteMedia(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.tally.MediaFailed++
	} else {
		d.tally.MediaFetched++
	}
}

// encoded are the ec_transfer_params of a producer's answer; nil if it has encoded nothing.
func (s *Server) encoded(p *sampling) map[string]mediaParams {
	if s.cfg.MediaRole != MediaProducer || len(p.media) == 0 {
		return nil
	}
	host, port, err := net.SplitHostPort(s.Address())
	if err != nil {
		return nil // it has listened there
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	out := make(map[string]mediaParams)
	for _, h := range p.media {
		s.encodings.put([]uint64{number(h)})
		out[h] = mediaParams{host, n, mediaBytes}
	}
	return out
}

// readMedia hands over what was encoded.
func (s *Server) readMedia(w http.ResponseWriter, r *http.Request) {
	var q mediaRead
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	refuse, p := s.faults.drawTransfer()
	if refuse || s.encodings.match([]uint64{number(q.Hash)}) == 0 {
		s.driver.refused()
		(&apiError{http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("Nothing with the hash %q was encoded here.", q.Hash)}).write(w)
		return
	}
	if p.midway() && !p.interrupt(r.Context()) {
		return
	}
	s.driver.servedMedia()
	writeJSON(w, http.StatusOK, struct{}{})
}

func (d *driver) servedMedia() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tally.MediaServed++
}
