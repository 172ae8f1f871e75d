package formula

// Credit returns the share of KV-cache blocks that so many tokens will take: whole
// blocks, of all tokens together. 0 if the size or the number of blocks is not known.
func Credit(tokens int64, blockSize, blockCount uint32) float64 {
	if tokens <= 0 || blockSize == 0 || blockCount == 0 {
		return 0
	}
	blocks := (tokens-1)/int64(blockSize) + 1
	return float64(blocks) / float64(blockCount)
}

// Room is the score of an endpoint that is expected to have so much of its KV-cache in
// use: 1 − usage, kept in 0..1.
func Room(usage float64) float32 {
	switch {
	case usage <= 0:
		return 1
	case usage >= 1:
		return 0
	}
	return float32(1 - usage)
}
