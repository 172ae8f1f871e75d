package prompt

import "strings"

// Kind is the API that a request is for.
type Kind uint8

// Kinds of requests.
const (
	Unknown     Kind = iota // no known path: only the model is looked for
	Shape                   // no path, or one for several APIs: the shape of the body decides
	Chat                    // OpenAI chat completions
	Completions             // OpenAI completions
	Embeddings              // embeddings, pooling, classify
	Responses               // OpenAI responses
	Messages                // Anthropic messages
	Rerank                  // rerank and score
	Generate                // the engines' own generate calls
	Tokenize                // calls that do not run the model
	Form                    // multipart forms: audio
)

// kinds maps the ends of paths to kinds. The first match counts.
var kinds = [...]struct {
	suffix string
	kind   Kind
}{
	{"/chat/completions", Chat},
	{"/completions", Completions},
	{"/embeddings", Embeddings},
	{"/responses", Responses},
	{"/v1/messages", Messages},
	{"/messages/count_tokens", Tokenize},
	{"/tokenize", Tokenize},
	{"/detokenize", Tokenize},
	{"/rerank", Rerank},
	{"/score", Rerank},
	{"/pooling", Embeddings},
	{"/classify", Embeddings},
	{"/generate", Generate},
	{"/generate_stream", Generate},
	{"/invocations", Shape}, // vLLM behind SageMaker: chat, completions, embeddings, …
	{"/audio/transcriptions", Form},
	{"/audio/translations", Form},
}

// KindOf returns the kind of API at an HTTP path; "" is Shape.
func KindOf(path string) Kind {
	if path == "" {
		return Shape
	}
	path = strings.TrimRight(path, "/")
	for _, k := range kinds {
		if strings.HasSuffix(path, k.suffix) {
			return k.kind
		}
	}
	return Unknown
}

// NeedsJSON is true if a body that is not JSON cannot be served by anybody.
func (k Kind) NeedsJSON() bool { return k != Unknown && k != Shape && k != Form }

// NeedsModel is true if the protocol demands that the request names its model.
func (k Kind) NeedsModel() bool {
	switch k {
	case Chat, Completions, Embeddings, Responses, Messages:
		return true
	default:
		return false
	}
}

// pathModel returns the model that is named by a KServe v2 path
// (/v2/models/NAME/…), "" if the path names none.
func pathModel(path string) string {
	rest, ok := strings.CutPrefix(path, "/v2/models/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
