package answer

import "github.com/pointsman/pointsman/internal/kit/jsonscan"

// Union returns one JSON object with the members of all, in their order and word for word;
// of those with the same key the first. Nil stands for no object; without any there is no
// union.
func Union(objects [][]byte) []byte {
	var out []byte
	seen := make(map[string]bool)
	for _, o := range objects {
		if o == nil {
			continue
		}
		if out == nil {
			out = append(out, '{')
		}
		out = appendMembers(out, o, seen)
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

// appendMembers appends those of an object's members that were not seen.
func appendMembers(dst, object []byte, seen map[string]bool) []byte {
	var s jsonscan.Scanner
	s.Reset(jsonscan.MaxDepth)
	s.Feed(object)
	var key string
	var from int64
	for s.Next() {
		t := &s.Token
		end := t.End
		switch {
		case t.Depth != 1:
			continue
		case t.Kind == jsonscan.Key:
			key, from = keyText(t), t.Start-1
			continue
		case t.Begins():
			s.Skip()
			continue
		case t.Kind == jsonscan.String:
			end++
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, object[from:end]...)
	}
	return dst
}
