package scorer

import (
	"math"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// checkRequest finds the first rule that a request breaks, the type apart.
func checkRequest(req *scorerv1.ScoreRequest) error {
	r := req.GetRequest()
	if r == nil {
		return InvalidRequest("request: missing")
	}
	if err := checkID("request.request_id", r.GetRequestId()); err != nil {
		return err
	}
	if p := r.GetPrefix(); p != nil {
		switch {
		case p.GetScheme() == "":
			return InvalidRequest("request.prefix.scheme: missing")
		case p.GetBlockSizeBytes() == 0:
			return InvalidRequest("request.prefix.block_size_bytes: missing")
		case len(p.GetHashes()) > MaxHashes:
			return InvalidRequest("request.prefix.hashes: %d, at most %d", len(p.GetHashes()), MaxHashes)
		}
	}
	if p := req.GetPending(); p != nil {
		if err := checkPending(p); err != nil {
			return err
		}
	}
	switch c := req.GetCandidates().(type) {
	case *scorerv1.ScoreRequest_Listed:
		return checkListed(c.Listed.GetCandidates())
	case *scorerv1.ScoreRequest_Table:
		return checkReference(c.Table)
	}
	return InvalidRequest("candidates: missing")
}

func checkID(field, id string) error {
	if id == "" {
		return InvalidRequest("%s: missing", field)
	}
	if len(id) > MaxIDBytes {
		return InvalidRequest("%s: %d bytes, at most %d", field, len(id), MaxIDBytes)
	}
	return nil
}

func checkPending(p *scorerv1.PendingPicks) error {
	if p.GetRouterId() == "" {
		return InvalidRequest("pending.router_id: missing")
	}
	n := len(p.GetSequences())
	if len(p.GetPositions()) != n || len(p.GetUncachedTokenCounts()) != n {
		return InvalidRequest("pending: columns of %d sequences, %d positions and %d token counts, want equal lengths",
			n, len(p.GetPositions()), len(p.GetUncachedTokenCounts()))
	}
	return nil
}

func checkListed(candidates []*scorerv1.Candidate) error {
	if n := len(candidates); n == 0 || n > MaxCandidates {
		return InvalidRequest("listed.candidates: %d, want 1 to %d", n, MaxCandidates)
	}
	for i, c := range candidates {
		if id := c.GetEndpointId(); id == "" || len(id) > MaxIDBytes {
			return InvalidRequest("listed.candidates[%d].endpoint_id: %d bytes, want 1 to %d", i, len(id), MaxIDBytes)
		}
		if l := c.GetLoad(); l != nil && l.KvCacheUsageRatio != nil && !ratio(*l.KvCacheUsageRatio) {
			return InvalidRequest("listed.candidates[%d].load.kv_cache_usage_ratio: %v, want 0 to 1", i, *l.KvCacheUsageRatio)
		}
	}
	return nil
}

func checkReference(t *scorerv1.TableReference) error {
	if t.GetTableDigest() == 0 {
		return InvalidRequest("table.table_digest: missing")
	}
	positions := t.GetPositions()
	if len(positions) > MaxCandidates {
		return InvalidRequest("table.positions: %d, at most %d", len(positions), MaxCandidates)
	}
	for i, p := range positions {
		if i > 0 && p <= positions[i-1] {
			return InvalidRequest("table.positions[%d]: %d after %d, want them ascending", i, p, positions[i-1])
		}
	}
	if n := len(positions); n > 0 && positions[n-1] >= MaxCandidates {
		return InvalidRequest("table.positions[%d]: %d is in no table, which has at most %d endpoints", n-1, positions[n-1], MaxCandidates)
	}
	return nil
}

// ratio reports whether v is in 0..1; NaN is not.
func ratio(v float32) bool { return v >= 0 && v <= 1 }

// ratios reports whether all values are in 0..1; it may say no to −0. Bits of such values
// are at most those of 1, and all others show in the highest bit, either of the value or of
// its distance to 1.
func ratios(values []float32) bool {
	one, outside := math.Float32bits(1), uint32(0)
	for _, v := range values {
		bits := math.Float32bits(v)
		outside |= bits | (one - bits)
	}
	return outside>>31 == 0
}

// candidateCount is how many scores are wanted; -1 if only the Type knows, which
// has resolved a whole table.
func candidateCount(req *scorerv1.ScoreRequest) int {
	if t := req.GetTable(); t != nil {
		if n := len(t.GetPositions()); n > 0 {
			return n
		}
		return -1
	}
	return len(req.GetListed().GetCandidates())
}
