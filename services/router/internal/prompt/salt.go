package prompt

import (
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// The keys by which engines keep the caches of tenants apart.
const (
	saltKey  = iota // cache_salt, of vLLM's calls and SGLang's OpenAI-compatible ones
	extraKey        // extra_key, of SGLang
	saltKeys
)

// extent is what must be known of a body to put salts into it.
type extent struct {
	root           int64 // after the opening brace; 0: this is no JSON object as it is
	keys           bool
	salt, extraKey string
	salts          [saltKeys]keyed
}

// keyed is where the value of a key stands, quotes and all.
type keyed struct {
	start, end int64
	times      int
}

func (k *keyed) take(t *jsonscan.Token) {
	k.start, k.end = t.Start, t.End
	if t.Kind == jsonscan.String {
		k.start, k.end = t.Start-1, t.End+1
	}
	k.times++
}

// Salted is true if requests of the kind fill and use an engine's prefix cache, so that
// their salts matter.
func (k Kind) Salted() bool {
	switch k {
	case Shape, Chat, Completions, Responses, Messages, Generate:
		return true
	default:
		return false
	}
}

// EditSalts returns the edits that give the body other salts: cache_salt everywhere, and
// extra_key in the engines' own generate calls, which know no other. Each becomes what
// derive makes of the one that the client has sent, "" for none. An error says that a
// client might get its own past: Unreadable, or a key that is there twice.
func (r *Reading) EditSalts(derive func(client string) string) ([]Edit, error) {
	b := &r.body
	if b.root == 0 {
		return nil, refuse(Unwritable, "cache_salt", "a cache salt cannot be put into a body that is compressed or not JSON")
	}
	var edits []Edit
	edit := func(key int, name, client string) error {
		text, k := append(append([]byte{'"'}, inJSON(derive(client))...), '"'), b.salts[key]
		switch k.times {
		case 0:
			text = append([]byte("\""+name+"\":"), text...)
			if b.keys || len(edits) > 0 {
				text = append(text, ',')
			}
			edits = append([]Edit{{b.root, b.root, text}}, edits...)
		case 1:
			edits = append(edits, Edit{k.start, k.end, text})
		default:
			return refuse(DuplicateKey, name, "the key %q is there twice", name)
		}
		return nil
	}
	err := edit(saltKey, "cache_salt", b.salt)
	if err == nil && r.Kind == Generate {
		err = edit(extraKey, "extra_key", b.extraKey)
	}
	return edits, err
}
