package route

import "github.com/pointsman/pointsman/internal/kit/roster"

const (
	bytesPerToken = 4       // of prompt, counted as everywhere
	maxBlockBytes = 1 << 20 // longer than any prompt block makes sense
)

// BlockSize returns the bytes in a prefix block for a scorer that asks for blocks of
// configured bytes, or, if it follows the endpoints' KV cache, for blocks as large as
// those of the cache, where endpoints tell.
func BlockSize(t *roster.Table, configured int, follows bool) int {
	if tokens := t.CacheBlockSize(); follows && tokens > 0 && tokens <= maxBlockBytes/bytesPerToken {
		return int(tokens) * bytesPerToken
	}
	return configured
}
