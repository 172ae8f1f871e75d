package epconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// compactJSON returns the node as JSON without spaces, keys in their order. Integers
// stay integers, of any size, and floats keep their digits: nothing goes through a
// float64. It returns nil for null and after reporting a fault.
func (r *report) compactJSON(n *yaml.Node, path string) []byte {
	n = resolve(n)
	if isNull(n) {
		return nil
	}
	w := &jsonWriter{report: r}
	faults := len(r.faults)
	w.value(n, path, 0)
	if len(r.faults) > faults {
		return nil
	}
	return w.out.Bytes()
}

type jsonWriter struct {
	*report
	out bytes.Buffer
}

func (w *jsonWriter) value(n *yaml.Node, path string, depth int) {
	n = resolve(n)
	if !w.step(n, path, depth) {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := w.mapping(n, path)
		w.out.WriteByte('{')
		for i, key := range m.keys {
			if i > 0 {
				w.out.WriteByte(',')
			}
			k := resolve(key).Value
			w.text(k)
			w.out.WriteByte(':')
			w.value(m.values[k], join(path, k), depth+1)
		}
		w.out.WriteByte('}')
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.value(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
		w.out.WriteByte(']')
	default:
		w.scalar(n, path)
	}
}

func (w *jsonWriter) scalar(n *yaml.Node, path string) {
	switch n.ShortTag() {
	case "!!null":
		w.out.WriteString("null")
	case "!!bool":
		b, ok := truth(n.Value)
		if !ok {
			w.fault(n, path, "%q is neither true nor false", n.Value)
			return
		}
		w.out.WriteString(strconv.FormatBool(b))
	case "!!int":
		i, ok := integer(n.Value)
		if !ok {
			w.fault(n, path, "%q is no integer", n.Value)
			return
		}
		w.out.WriteString(i.String())
	case "!!float":
		w.float(n, path)
	case "!!binary":
		w.fault(n, path, "binary values cannot be handed on to a scorer")
	default: // texts, and dates, which are texts to JSON
		w.text(n.Value)
	}
}

func (w *jsonWriter) text(s string) {
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) == nil { // a string always encodes
		w.out.Truncate(w.out.Len() - 1) // its newline
	}
}

func (w *jsonWriter) float(n *yaml.Node, path string) {
	var f float64
	if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		w.fault(n, path, "must be a finite number, not %s", n.Value)
		return
	}
	if json.Valid([]byte(n.Value)) {
		w.out.WriteString(n.Value)
		return
	}
	b, err := json.Marshal(f) // spellings that JSON lacks, such as .5 or +1.0
	if err != nil {
		w.fault(n, path, "%q is no number", n.Value)
		return
	}
	w.out.Write(b)
}

// truth reads what YAML calls a truth value. A text that is tagged as one need not be.
func truth(s string) (value, ok bool) {
	value = strings.EqualFold(s, "true")
	return value, value || strings.EqualFold(s, "false")
}

// integer reads what YAML calls an integer: decimal, 0x, 0o or 0b, with a sign and
// underscores.
func integer(s string) (*big.Int, bool) {
	s = strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+")
	if len(s) > 400 {
		return nil, false
	}
	return new(big.Int).SetString(s, 0)
}
