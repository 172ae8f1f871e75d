package usage

import "github.com/pointsman/pointsman/internal/kit/jsonscan"

// key is a key that means something to us.
type key uint8

const (
	other key = iota
	keyUsage
	keyAnswer
	keyChoices
	keyType
	keyDelta
	keyText
	keyFinish
	keyRole
	keyPrompt
	keyOutput
	keyTotal
	keyDetails
	keyCached
	keyCacheRead
	keyCacheCreation
)

// keyOf returns what a key means. Both spellings of the details are in use.
func keyOf(t *jsonscan.Token) key {
	name := t.Bytes
	if t.Escaped {
		name = jsonscan.AppendUnescaped(nil, name)
	}
	switch string(name) {
	case "usage":
		return keyUsage
	case "response", "message":
		return keyAnswer
	case "choices":
		return keyChoices
	case "type":
		return keyType
	case "delta":
		return keyDelta
	case "text":
		return keyText
	case "finish_reason":
		return keyFinish
	case "role":
		return keyRole
	case "prompt_tokens", "input_tokens":
		return keyPrompt
	case "completion_tokens", "output_tokens":
		return keyOutput
	case "total_tokens":
		return keyTotal
	case "prompt_tokens_details", "prompt_token_details", "input_tokens_details":
		return keyDetails
	case "cached_tokens":
		return keyCached
	case "cache_read_input_tokens":
		return keyCacheRead
	case "cache_creation_input_tokens":
		return keyCacheCreation
	}
	return other
}
