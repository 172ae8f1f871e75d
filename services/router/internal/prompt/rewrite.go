package prompt

import (
	"bytes"
	"encoding/json"
)

// ReplaceModel appends the body to dst, with another model in the place of the one that
// was read from it, and nothing else changed. It returns false if the model does not
// stand in the body as it was sent: in its path, or in a body that is encoded or a form.
func (r *Reading) ReplaceModel(dst, body []byte, model string) ([]byte, bool) {
	if r.ModelEnd <= 0 || r.ModelEnd > int64(len(body)) || r.ModelStart > r.ModelEnd {
		return dst, false
	}
	dst = append(dst, body[:r.ModelStart]...)
	dst = append(dst, inJSON(model)...)
	return append(dst, body[r.ModelEnd:]...), true
}

// inJSON returns the text as it stands in JSON, without its quotes.
func inJSON(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // strings and buffers do not fail
	return bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte{'"'}), []byte("\"\n"))
}
