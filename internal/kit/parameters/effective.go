package parameters

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// InEffect says that a key, as it is spelt, has come to a value which is not what was
// read, such as a limit. value must be of a kind that JSON has.
func (r *Reader) InEffect(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil { // cannot happen with numbers, texts and truth values
		return
	}
	r.inEffect[key] = text
}

// Effective returns what was read, with what stands for keys that were not set: a JSON
// object with the keys as they are spelt, in that order. Of exclusive keys there is one.
// It is as good as the object that was read, if that had no faults.
func (r *Reader) Effective() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, key := range r.keys {
		text, read := r.inEffect[key]
		if !read || r.outdone(key) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil { // cannot happen with a text
			continue
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// outdone is true of an exclusive key in whose place another one is in effect.
func (r *Reader) outdone(key string) bool {
	for _, group := range r.exclusive {
		if !slices.Contains(group, key) {
			continue
		}
		inEffect := group[0]
		for _, k := range group {
			if _, set := r.values[strings.ToLower(k)]; set {
				inEffect = k
				break
			}
		}
		if key != inEffect {
			return true
		}
	}
	return false
}
