package prompt

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
)

// decode returns the body without its content encoding. opaque says why that
// cannot be had.
func (p *Parser) decode(in Input, kind Kind) (body []byte, opaque string, err error) {
	encoding := strings.ToLower(strings.TrimSpace(in.ContentEncoding))
	var open func(raw []byte) (io.ReadCloser, error)
	switch encoding {
	case "", "identity":
		return in.Body, "", nil
	case "gzip", "x-gzip":
		open = func(raw []byte) (io.ReadCloser, error) { return gzip.NewReader(bytes.NewReader(raw)) }
	case "deflate":
		open = openDeflate
	default:
		return nil, "content encoding is not read here", nil
	}
	if len(in.Body) == 0 {
		return nil, "", nil
	}
	body, err = p.inflate(in.Body, open)
	switch {
	case err == nil:
		return body, "", nil
	case errors.Is(err, errTooLarge):
		return nil, "", refuse(TooLarge, "", "the body is larger than %d bytes when decoded", p.cfg.MaxDecodedBytes)
	case kind.NeedsJSON():
		return nil, "", refuse(BadEncoding, "", "the body is not %s: %w", encoding, err)
	default:
		return nil, "the body is not what its content encoding says", nil
	}
}

// encoded is true if a body of this content encoding is not sent as it is.
func encoded(contentEncoding string) bool {
	e := strings.ToLower(strings.TrimSpace(contentEncoding))
	return e != "" && e != "identity"
}

var errTooLarge = errors.New("too large when decoded")

// openDeflate reads zlib, which is what HTTP means by deflate, and the bare stream
// that some clients send instead.
func openDeflate(raw []byte) (io.ReadCloser, error) {
	z, err := zlib.NewReader(bytes.NewReader(raw))
	if errors.Is(err, zlib.ErrHeader) {
		return flate.NewReader(bytes.NewReader(raw)), nil
	}
	return z, err
}

func (p *Parser) inflate(raw []byte, open func(raw []byte) (io.ReadCloser, error)) ([]byte, error) {
	z, err := open(raw)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(z, p.cfg.MaxDecodedBytes+1))
	if err == nil && n > p.cfg.MaxDecodedBytes {
		err = errTooLarge
	}
	return out.Bytes(), err
}
