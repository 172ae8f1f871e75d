package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
)

const (
	maxBlockSize = 1 << 20 // bytes; longer than any prompt block makes sense
	maxHeaders   = 64      // that one instance may ask for
	maxHashes    = 8192    // the contract's limit for PrefixBlocks
)

// needs is what an instance must be given: with each request, and of the endpoints.
type needs struct {
	fanout.Needs
	load, labels, adapters bool
	sessionHeader          string // of the answer, for the client; empty for none
	told                   []byte // what its parameters come to; nil if the scorer does not tell
}

// readNeeds refuses what this router does not know or may not give.
func readNeeds(m *scorerv1.InputNeeds, promptText bool) (*needs, error) {
	n := &needs{sessionHeader: m.GetSessionHeaderName()}
	if h := n.sessionHeader; h != strings.ToLower(h) || !headerName(h) && h != "" {
		return nil, fmt.Errorf("it has tokens put into response header %q, which is no header name in lower case", cut(h))
	}
	for _, in := range m.GetRequiredInputs() {
		switch in {
		case scorerv1.Input_INPUT_LOAD:
			n.load = true
		case scorerv1.Input_INPUT_LABELS:
			n.labels = true
		case scorerv1.Input_INPUT_ADAPTERS:
			n.adapters = true
		case scorerv1.Input_INPUT_PREFIX_BLOCKS:
			n.Prefix = true
			if err := n.readPrefix(m); err != nil {
				return nil, err
			}
		case scorerv1.Input_INPUT_PROMPT_TEXT:
			n.PromptText = true
			if !promptText {
				return nil, errors.New("it needs the prompt text, which holds user data and is not allowed for it; allow it with promptText: true")
			}
		case scorerv1.Input_INPUT_REQUEST_HEADERS:
			n.Headers = m.GetHeaderNames()
			if err := checkHeaders(n.Headers); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("it needs input %v, which this router does not know; a newer router may", in)
		}
	}
	return n, nil
}

// maxTold is the most bytes that parameters may come to.
const maxTold = 64 << 10

// readTold returns what parameters come to; nil if the scorer does not tell, or tells
// what is no object.
func readTold(m *scorerv1.ValidateParametersResponse) []byte {
	text := bytes.TrimSpace(m.GetEffectiveParametersJson())
	if len(text) == 0 || len(text) > maxTold || text[0] != '{' || !json.Valid(text) {
		return nil
	}
	return text
}

func (n *needs) readPrefix(m *scorerv1.InputNeeds) error {
	size, limit := m.GetPrefixBlockSizeBytes(), m.GetMaxPrefixBlocks()
	if size == 0 || size > maxBlockSize {
		return fmt.Errorf("it needs prefix blocks of %d bytes; they must have 1 to %d", size, maxBlockSize)
	}
	if limit == 0 {
		limit = maxHashes
	}
	n.FollowsCache = m.GetPrefixBlockFollowsCache()
	n.BlockSize, n.BlockLimit = int(size), int(min(limit, maxHashes))
	return nil
}

// headerName says whether s is an HTTP field name.
func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func checkHeaders(names []string) error {
	if len(names) == 0 || len(names) > maxHeaders {
		return fmt.Errorf("it needs request headers and names %d of them; it must name 1 to %d", len(names), maxHeaders)
	}
	for _, h := range names {
		if h == "" || h != strings.ToLower(h) {
			return fmt.Errorf("it needs header %q, whose name is not in lower case", cut(h))
		}
	}
	return nil
}
