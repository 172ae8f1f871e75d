package prompt

import "github.com/pointsman/pointsman/internal/kit/jsonscan"

// field is a key of the body that means something to us.
type field uint8

const (
	other field = iota

	fieldModel
	fieldStream
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMaxOutputTokens
	fieldUser
	fieldSession
	fieldCacheKey
	fieldConversation
	fieldSalt
	fieldExtraKey
	fieldAdapter

	// From here on: fields that make up a prompt.
	fieldTools
	fieldFunctions
	fieldDocuments
	fieldTemplate
	fieldSystem
	fieldInstructions
	fieldMessages
	fieldPrompt
	fieldInput
	fieldQuery
	fieldText1
	fieldText2
	fieldCount

	firstSection = fieldTools
)

// fieldOf returns what a key of the body means.
func (r *Reader) fieldOf(t *jsonscan.Token) field {
	if t.Bytes == nil {
		return other // longer than any of ours
	}
	key := t.Bytes
	if t.Escaped {
		r.unescaped = jsonscan.AppendUnescaped(r.unescaped[:0], key)
		key = r.unescaped
	}
	switch string(key) {
	case "model":
		return fieldModel
	case "stream":
		return fieldStream
	case "max_tokens":
		return fieldMaxTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "max_output_tokens":
		return fieldMaxOutputTokens
	case "user":
		return fieldUser
	case "session_id":
		return fieldSession
	case "prompt_cache_key":
		return fieldCacheKey
	case "conversation":
		return fieldConversation
	case "cache_salt":
		return fieldSalt
	case "extra_key":
		return fieldExtraKey
	case "lora_path":
		return fieldAdapter
	case "tools":
		return fieldTools
	case "functions":
		return fieldFunctions
	case "documents":
		return fieldDocuments
	case "chat_template":
		return fieldTemplate
	case "system":
		return fieldSystem
	case "instructions":
		return fieldInstructions
	case "messages":
		return fieldMessages
	case "prompt":
		return fieldPrompt
	case "input":
		return fieldInput
	case "query":
		return fieldQuery
	case "text_1":
		return fieldText1
	case "text_2":
		return fieldText2
	case "text", "text_input", "input_ids", "token_ids":
		if r.kind == Generate {
			return fieldPrompt
		}
	}
	return other
}

// part is a key of a message or of a content part.
type part uint8

const (
	partOther part = iota
	partRole
	partName
	partContent
	partToolCalls
	partFunctionCall
	partToolCallID
	partType
	partText
)

func (r *Reader) partOf(t *jsonscan.Token) part {
	if t.Bytes == nil {
		return partOther
	}
	key := t.Bytes
	if t.Escaped {
		r.unescaped = jsonscan.AppendUnescaped(r.unescaped[:0], key)
		key = r.unescaped
	}
	switch string(key) {
	case "role":
		return partRole
	case "name":
		return partName
	case "content":
		return partContent
	case "tool_calls":
		return partToolCalls
	case "function_call":
		return partFunctionCall
	case "tool_call_id":
		return partToolCallID
	case "type":
		return partType
	case "text":
		return partText
	}
	return partOther
}
