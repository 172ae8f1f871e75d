package prefix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/scorer"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
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
	// MaxBlocks is how many blocks of a prompt are looked at: maxPrefixBlocksToMatch,
	// default 256, at most 8192 count; or maxPrefixTokensToMatch, if above 0, in
	// tokens.
	MaxBlocks int
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
    "autoTune": {"type": "boolean", "description": "Accepted and without effect: the block size is the configured one."},
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
	r := reader{values: make(map[string]value)}
	r.read(parametersJSON)
	s := DefaultSettings()

	r.exclusive("hashBlockSize", "blockSize", "blockSizeTokens")
	for _, k := range []string{"hashBlockSize", "blockSize"} {
		s.BlockSize = uint32(r.whole(k, int64(s.BlockSize), 1, mostBlockSize))
	}
	if n := r.whole("blockSizeTokens", 0, 1, mostBlockSize/bytesPerToken); n > 0 {
		s.BlockSize = uint32(n) * bytesPerToken
	}
	r.flag("autoTune")
	s.MaxBlocks = int(min(r.whole("maxPrefixBlocksToMatch", int64(s.MaxBlocks), 1, 1<<53), scorer.MaxHashes))
	if n := r.whole("maxPrefixTokensToMatch", 0, 0, 1<<53); n > 0 {
		s.MaxBlocks = int(min(max(n*bytesPerToken/int64(s.BlockSize), 1), scorer.MaxHashes))
	}
	if n := r.whole("lruCapacityPerServer", 0, -1<<53, index.MaxCapacity); n > 0 {
		s.Capacity = int(n)
	}
	return s, r.faults
}

// value is one parameter as it was given.
type value struct {
	key  string // as written
	text json.RawMessage
}

// reader picks parameters out of an object by name, in any case.
type reader struct {
	values map[string]value // by lower-case key
	faults []*scorerv1.ParameterFault
}

func (r *reader) fault(key, format string, args ...any) {
	r.faults = append(r.faults, &scorerv1.ParameterFault{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) read(text []byte) {
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		r.fault("", "a JSON object is wanted")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		lower := strings.ToLower(key)
		known := slices.ContainsFunc(keys[:], func(k string) bool { return strings.ToLower(k) == lower })
		before, twice := r.values[lower]
		switch {
		case !known:
			r.fault(key, "unknown key; %s", conf.Hint(key, keys[:]))
		case twice:
			r.fault(key, "set twice, also as %s", before.key)
		case string(given[key]) != "null":
			r.values[lower] = value{key, given[key]}
		}
	}
}

// exclusive allows only one of several keys.
func (r *reader) exclusive(keys ...string) {
	var set []string
	for _, k := range keys {
		if v, ok := r.values[strings.ToLower(k)]; ok {
			set = append(set, v.key)
		}
	}
	if len(set) > 1 {
		r.fault(set[1], "give only one of %s", strings.Join(set, ", "))
	}
}

// whole returns a whole number between least and most, or otherwise if it is not set
// or not one.
func (r *reader) whole(key string, otherwise, least, most int64) int64 {
	v, ok := r.values[strings.ToLower(key)]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(string(v.text), 10, 64)
	switch {
	case err != nil:
		r.fault(v.key, "want a whole number, not %.40s", v.text)
	case n < least:
		r.fault(v.key, "must be at least %d, not %d", least, n)
	case n > most:
		r.fault(v.key, "must be at most %d, not %d", most, n)
	default:
		return n
	}
	return otherwise
}

// flag checks a boolean.
func (r *reader) flag(key string) {
	if v, ok := r.values[strings.ToLower(key)]; ok && string(v.text) != "true" && string(v.text) != "false" {
		r.fault(v.key, "want true or false, not %.40s", v.text)
	}
}
