package prompt

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encoding is a content encoding.
type encoding uint8

const (
	plain encoding = iota // none
	gzipped
	deflated
	zstandard
	brotlied
	encodings          // how many there are
	unread    = ^plain // one that is not read here
)

// UnreadEncoding is Reading.Opaque of a body whose content encoding is not read here.
const UnreadEncoding = "content encoding is not read here"

// maxWindow is how far back a zstd body may refer, as RFC 9659 has it for HTTP. A decoder
// takes that memory as soon as it has seen the header of a body.
const maxWindow = 8 << 20

// window returns the memory that a decoder takes for a body besides what it has decoded,
// where that is more than a little.
func (e encoding) window(raw []byte) int64 {
	var h zstd.Header
	if e != zstandard || h.Decode(raw) != nil {
		return 0
	}
	return int64(min(h.WindowSize, maxWindow)) //nolint:gosec // at most maxWindow
}

// String returns the encoding as in the header.
func (e encoding) String() string {
	switch e {
	case plain:
		return "identity"
	case gzipped:
		return "gzip"
	case deflated:
		return "deflate"
	case zstandard:
		return "zstd"
	case brotlied:
		return "br"
	}
	return "unread"
}

// encodingOf returns the encoding that a header tells. Several on top of each other are
// not read.
func encodingOf(header string) encoding {
	if header == "" {
		return plain
	}
	switch strings.ToLower(strings.TrimSpace(header)) {
	case "", "identity":
		return plain
	case "gzip", "x-gzip":
		return gzipped
	case "deflate":
		return deflated
	case "zstd":
		return zstandard
	case "br":
		return brotlied
	}
	return unread
}

// open returns a reader that decodes raw, to be closed by close.
func (d *decoders) open(e encoding, raw []byte) (io.Reader, error) {
	in := bytes.NewReader(raw)
	idle := d.idle[e].Get()
	switch e {
	case gzipped:
		if z, ok := idle.(*gzip.Reader); ok {
			return z, z.Reset(in)
		}
		return gzip.NewReader(in)
	case deflated:
		// HTTP means zlib by deflate; some clients send the bare stream.
		z, err := zlib.NewReader(in)
		if errors.Is(err, zlib.ErrHeader) {
			return flate.NewReader(bytes.NewReader(raw)), nil
		}
		return z, err
	case zstandard:
		if z, ok := idle.(*zstd.Decoder); ok {
			return z, z.Reset(in)
		}
		// With a concurrency of 1 it starts no goroutines.
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeBuffersBelow(0),
			zstd.WithDecoderMaxMemory(uint64(max(d.each, maxWindow))), zstd.WithDecoderMaxWindow(maxWindow)) //nolint:gosec // above zero
	default:
		if z, ok := idle.(*brotli.Reader); ok {
			return z, z.Reset(in)
		}
		return brotli.NewReader(in), nil
	}
}

// close keeps a reader for the next body, without this one.
func (d *decoders) close(e encoding, z io.Reader) {
	switch z := z.(type) {
	case *zstd.Decoder:
		_ = z.Reset(nil) // it only lets go
	case *brotli.Reader:
		_ = z.Reset(bytes.NewReader(nil)) // it fails for no reader
	case *gzip.Reader:
		// Its Reset reads a header: it keeps the body until the next one.
	default:
		return
	}
	d.idle[e].Put(z)
}
