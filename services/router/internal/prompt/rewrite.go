package prompt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// Edits puts edits in the order of their places.
func Edits(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	return edits
}

// Edit is a change of a body: Text in the place of the bytes from Start to End.
type Edit struct {
	Start, End int64
	Text       []byte
}

// Apply appends the body to dst with the edits made, which are in order and do not
// overlap.
func Apply(dst, body []byte, edits []Edit) []byte {
	at := int64(0)
	for _, e := range edits {
		dst = append(append(dst, body[at:e.Start]...), e.Text...)
		at = e.End
	}
	return append(dst, body[at:]...)
}

// EditModel returns the edit that puts another model in the place of the one that was
// read. It returns false if the model does not stand in the body as it was sent: in its
// path, or in a body that is encoded or a form.
func (r *Reading) EditModel(model string) (Edit, bool) {
	return Edit{r.ModelStart, r.ModelEnd, inJSON(model)}, r.ModelEnd > 0 && r.ModelStart <= r.ModelEnd
}

// ReplaceModel appends the body to dst with another model, as EditModel says, and nothing
// else changed.
func (r *Reading) ReplaceModel(dst, body []byte, model string) ([]byte, bool) {
	e, ok := r.EditModel(model)
	if !ok || e.End > int64(len(body)) {
		return dst, false
	}
	return Apply(dst, body, []Edit{e}), true
}

// inJSON returns the text as it stands in JSON, without its quotes.
func inJSON(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // strings and buffers do not fail
	return bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte{'"'}), []byte("\"\n"))
}
