package prefix

import (
	"github.com/pointsman/pointsman/internal/kit/parameters"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	bytesPerToken = 4
	mostBlockSize = 1 << 20
)

// Settings are the parameters of one instance of prefix-cache-scorer. Keys match in
// any case.
type Settings struct {
	// BlockSize is the bytes in a block: hashBlockSize (or blockSize), default 64; or
	// blockSizeTokens, of 4 bytes each. Smaller finds shorter common parts, and needs
	// more memory.
	BlockSize uint32
	// AutoTune makes blocks as large as those of the endpoints' KV cache, counting 4
	// bytes for a token, where endpoints tell; BlockSize is for where none does.
	// Default false.
	AutoTune bool
	// MaxBlocks is how many blocks of a prompt are looked at: maxPrefixBlocksToMatch,
	// default 256, at most 8192 count.
	MaxBlocks int
	// MaxTokens, if above 0, is the same in tokens: maxPrefixTokensToMatch.
	MaxTokens int64
	// Capacity is the blocks remembered per endpoint: lruCapacityPerServer, default
	// 31250, which also 0 and below stand for. Of several instances with one block
	// size, the largest counts for all, for as long as the indexer runs.
	Capacity int
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{BlockSize: 64, MaxBlocks: 256, Capacity: 31250} }

// schema is the JSON Schema of the parameters.
const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "hashBlockSize": {"type": "integer", "minimum": 1, "maximum": 1048576, "default": 64, "description": "Bytes of prompt in one block."},
    "blockSize": {"type": "integer", "minimum": 1, "maximum": 1048576, "description": "Newer spelling of hashBlockSize."},
    "blockSizeTokens": {"type": "integer", "minimum": 1, "maximum": 262144, "description": "The block size in tokens, counted as 4 bytes each."},
    "autoTune": {"type": "boolean", "default": false, "description": "Make blocks as large as those of the endpoints' KV cache, where endpoints tell; the configured size is for where none does."},
    "maxPrefixBlocksToMatch": {"type": "integer", "minimum": 1, "default": 256, "description": "Blocks of a prompt that are looked at; more than 8192 count as 8192."},
    "maxPrefixTokensToMatch": {"type": "integer", "minimum": 0, "default": 0, "description": "If above 0, the same in tokens of 4 bytes."},
    "lruCapacityPerServer": {"type": "integer", "default": 31250, "description": "Blocks remembered per endpoint. Of several instances with one block size the largest counts. 0 and below: the default."}
  }
}`

// keys are the parameters as they are spelt.
var keys = [...]string{
	"hashBlockSize", "blockSize", "blockSizeTokens", "autoTune",
	"maxPrefixBlocksToMatch", "maxPrefixTokensToMatch", "lruCapacityPerServer",
}

// ParseSettings reads parameters: a JSON object or nothing. All faults are reported.
func ParseSettings(parametersJSON []byte) (Settings, []*scorerv1.ParameterFault) {
	s, r := parseSettings(parametersJSON)
	return s, r.Faults()
}

func parseSettings(parametersJSON []byte) (Settings, *parameters.Reader) {
	r := parameters.Read(parametersJSON, keys[:]...)
	return readSettings(r), r
}

// readSettings reads what concerns prefixes of an object that may hold more.
func readSettings(r *parameters.Reader) Settings {
	s := DefaultSettings()
	r.Exclusive("hashBlockSize", "blockSize", "blockSizeTokens")
	for _, k := range []string{"hashBlockSize", "blockSize"} {
		s.BlockSize = uint32(r.Whole(k, int64(s.BlockSize), 1, mostBlockSize))
	}
	if n := r.Whole("blockSizeTokens", 0, 1, mostBlockSize/bytesPerToken); n > 0 {
		s.BlockSize = uint32(n) * bytesPerToken
	}
	s.AutoTune = r.Flag("autoTune", false)
	s.MaxBlocks = int(min(r.Whole("maxPrefixBlocksToMatch", int64(s.MaxBlocks), 1, 1<<53), scorer.MaxHashes))
	r.InEffect("maxPrefixBlocksToMatch", s.MaxBlocks)
	s.MaxTokens = r.Whole("maxPrefixTokensToMatch", 0, 0, 1<<53)
	if n := r.Whole("lruCapacityPerServer", 0, -1<<53, index.MaxCapacity); n > 0 {
		s.Capacity = int(n)
	}
	r.InEffect("lruCapacityPerServer", s.Capacity)
	return s
}

// limit returns how many blocks of a size are looked at.
func (s *Settings) limit(blockSize uint32) int {
	if s.MaxTokens == 0 {
		return s.MaxBlocks
	}
	return int(min(max(s.MaxTokens*bytesPerToken/int64(blockSize), 1), scorer.MaxHashes))
}

// fits says whether prefixes in blocks of the size are what the instance asked for.
func (s *Settings) fits(blockSize uint32) bool {
	return blockSize == s.BlockSize || s.AutoTune && blockSize > 0 && blockSize <= mostBlockSize && blockSize%bytesPerToken == 0
}

// needs is what a router is asked for.
func (s *Settings) needs() *scorerv1.InputNeeds {
	limit := s.limit(s.BlockSize)
	if s.AutoTune && s.MaxTokens > 0 {
		limit = scorer.MaxHashes // what it comes to depends on the size, and is cut here
	}
	return &scorerv1.InputNeeds{
		RequiredInputs:       []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS},
		PrefixBlockSizeBytes: s.BlockSize, MaxPrefixBlocks: uint32(limit), PrefixBlockFollowsCache: s.AutoTune,
	}
}
