package prompt

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// isForm is true for the content types of multipart bodies.
func isForm(contentType string) bool {
	const multi = "multipart/"
	contentType = strings.TrimLeft(contentType, " \t")
	return len(contentType) > len(multi) && strings.EqualFold(contentType[:len(multi)], multi)
}

// boundaryOf returns what separates the parts of a form; "" if that cannot be had.
func boundaryOf(contentType string) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return params["boundary"]
}

const formCutShort = "multipart form that is cut short"

// readForm finds the model in a multipart form. What cannot be read as a form is
// left to the engine.
func readForm(out *Reading, body []byte, boundary string) error {
	if boundary == "" {
		out.Opaque = "multipart form without a boundary"
		return nil
	}
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	found := false
	for {
		p, err := form.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			out.Opaque = formCutShort
			return nil //nolint:nilerr // the engine shall judge
		}
		switch p.FormName() {
		case "model":
			if found {
				return refuse(DuplicateKey, "model", `the field "model" is there twice`)
			}
			found = true
			if err := formModel(out, p); err != nil {
				return err
			}
		case "stream":
			value, _ := io.ReadAll(io.LimitReader(p, 8))
			out.Stream = strings.EqualFold(string(value), "true")
		}
	}
}

func formModel(out *Reading, value io.Reader) error {
	name, err := io.ReadAll(io.LimitReader(value, maxModelBytes+1))
	switch {
	case err != nil:
		out.Opaque = formCutShort
	case len(name) > maxModelBytes:
		return refuse(BadModel, "model", "model is longer than %d bytes", maxModelBytes)
	default:
		out.Model = strings.ToValidUTF8(string(name), "\uFFFD")
	}
	return nil
}
