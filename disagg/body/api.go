package body

// API is whose request a body is.
type API uint8

// APIs.
const (
	// Other is one that cannot be served by two endpoints.
	Other       API = iota
	Chat            // /v1/chat/completions
	Completions     // /v1/completions
	Responses       // /v1/responses
	Messages        // /v1/messages, Anthropic's
	Generate        // /inference/v1/generate, of tokens
)

// APIOf returns the API of a POST to the path.
func APIOf(path string) API {
	switch path {
	case "/v1/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/responses":
		return Responses
	case "/v1/messages":
		return Messages
	case "/inference/v1/generate":
		return Generate
	}
	return Other
}

// limits are the fields that limit how many tokens are generated, the one that every
// engine knows first.
func (a API) limits() []string {
	switch a {
	case Chat, Completions:
		return []string{keyMaxTokens, keyMaxCompletionTokens}
	case Responses:
		return []string{keyMaxOutputTokens}
	case Messages:
		return []string{keyMaxTokens}
	}
	return nil
}

// minimum is true if the API knows min_tokens. It keeps an engine from ending before
// its first token, which it would do without handing anything over.
func (a API) minimum() bool { return a == Chat || a == Completions }
