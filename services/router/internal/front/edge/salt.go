package edge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http/httpguts"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// SaltConfig says how tenants are kept apart in the engines' prefix caches.
type SaltConfig struct {
	// IdentityHeader is the request header by which the gateway says who the client is,
	// such as x-tenant-id. Then every request's cache_salt is made of that identity, the
	// secret, and the cache_salt the client has sent, so that nobody can use, or time, the
	// cached prompts of another by sending its salt. The gateway must set the header itself
	// and drop what clients send. Empty: bodies go on with the salts of the clients. Default
	// empty.
	IdentityHeader string `yaml:"identityHeader"`
	// Secret keys the salts. It must be the same in all routers, and at least 16 bytes long;
	// with another one all caches begin anew.
	Secret conf.Secret `yaml:"secret"`
}

// leastSecret is in bytes.
const leastSecret = 16

// Validate returns all faults, each beginning with its key.
func (c SaltConfig) Validate() error {
	var errs []error
	if c.IdentityHeader != "" && !httpguts.ValidHeaderFieldName(c.IdentityHeader) {
		errs = append(errs, fmt.Errorf("identityHeader: %q is not the name of a header", c.IdentityHeader))
	}
	switch {
	case c.IdentityHeader == "" && c.Secret != "":
		errs = append(errs, errors.New("secret: is of no use without identityHeader"))
	case c.IdentityHeader != "" && len(c.Secret) < leastSecret:
		errs = append(errs, fmt.Errorf("secret: must have at least %d bytes where there is an identityHeader", leastSecret))
	}
	return errors.Join(errs...)
}

// Salter makes salts. A nil Salter leaves bodies as they are. Safe for concurrent use.
type Salter struct {
	header string
	secret []byte
}

// NewSalter returns a Salter; nil if there is no IdentityHeader.
func NewSalter(c SaltConfig) *Salter {
	if c.IdentityHeader == "" {
		return nil
	}
	return &Salter{c.IdentityHeader, []byte(c.Secret)}
}

// Applies is true if requests to the path must have a salt of ours.
func (s *Salter) Applies(path string) bool { return s != nil && prompt.KindOf(path).Salted() }

// Edits returns the edits that put salts into the body that was read; none if it needs
// none. Requests without an identity are one tenant.
func (s *Salter) Edits(got *prompt.Reading, h route.Headers) ([]prompt.Edit, *Refusal) {
	if s == nil || !got.Kind.Salted() {
		return nil, nil
	}
	identity := h.Get(s.header)
	edits, err := got.EditSalts(func(client string) string {
		sum := hmac.New(sha256.New, s.secret)
		framed := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), uint64(len(identity)))
		sum.Write(append(append(framed, identity...), client...))
		return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
	})
	return edits, OfReading(got, err)
}

// Unsalted is the refusal of a request whose body is not here, so that no salt can be put
// into it.
func Unsalted() *Refusal {
	return OfBody(&prompt.Error{Reason: prompt.Unwritable, Param: "cache_salt", Err: errors.New("a cache salt must be put into this request, and the proxy does not send its whole body to the router")})
}
