package body

import (
	"errors"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Keys that mean something here.
const (
	keyMaxTokens           = "max_tokens"
	keyMaxCompletionTokens = "max_completion_tokens"
	keyMaxOutputTokens     = "max_output_tokens"
	keyMinTokens           = "min_tokens"
	keySampling            = "sampling_params"
	keyStream              = "stream"
	keyStreamOptions       = "stream_options"
	keyTransfer            = "kv_transfer_params"
	keyHost                = "bootstrap_host"
	keyPort                = "bootstrap_port"
	keyRoom                = "bootstrap_room"
	keyThreshold           = "cache_hit_threshold"
	keyModel               = "model"
	keyMessages            = "messages"
	keyMedia               = "ec_transfer_params"
	keyPrompt              = "prompt"
	keyAnswers             = "n"
	keyBestOf              = "best_of"
	keyPairKey             = "bootstrap_pair_key"
	keyPrefillRank         = "disagg_prefill_dp_rank"
	keyDisaggregated       = "disaggregated_params"
	keyXArgs               = "vllm_xargs"
	keyExtraArgs           = "extra_args"
	keyContinue            = "continue_final_message"
	keyGeneration          = "add_generation_prompt"
)

// known returns the constant for a key, "" for one that means nothing here.
func known(t *jsonscan.Token) string {
	name := t.Bytes
	if t.Escaped {
		name = jsonscan.AppendUnescaped(nil, name)
	}
	switch string(name) {
	case keyMaxTokens:
		return keyMaxTokens
	case keyMaxCompletionTokens:
		return keyMaxCompletionTokens
	case keyMaxOutputTokens:
		return keyMaxOutputTokens
	case keyMinTokens:
		return keyMinTokens
	case keySampling:
		return keySampling
	case keyStream:
		return keyStream
	case keyStreamOptions:
		return keyStreamOptions
	case keyTransfer:
		return keyTransfer
	case keyHost:
		return keyHost
	case keyPort:
		return keyPort
	case keyRoom:
		return keyRoom
	case keyThreshold:
		return keyThreshold
	case keyModel:
		return keyModel
	case keyMessages:
		return keyMessages
	case keyMedia:
		return keyMedia
	case keyPrompt:
		return keyPrompt
	case keyAnswers:
		return keyAnswers
	case keyBestOf:
		return keyBestOf
	case keyPairKey:
		return keyPairKey
	case keyPrefillRank:
		return keyPrefillRank
	case keyDisaggregated:
		return keyDisaggregated
	case keyXArgs:
		return keyXArgs
	case keyExtraArgs:
		return keyExtraArgs
	case keyContinue:
		return keyContinue
	case keyGeneration:
		return keyGeneration
	}
	return ""
}

// Errors of bodies that cannot be read. A body that is not JSON gives a
// *jsonscan.SyntaxError or jsonscan.ErrTooDeep instead.
var (
	// ErrNotObject says that a body is JSON, but not an object.
	ErrNotObject = errors.New("the body is not a JSON object")
	// ErrTooMany says that it has more members than anybody needs.
	ErrTooMany = errors.New("the body has too many members")
)

// maxMembers is how many members an object may have.
const maxMembers = 1024

// member is one member of an object; offsets are within the body.
type member struct {
	name  string // "" if it means nothing here
	from  int    // the key's opening quote
	value int    // the first byte of the value
	to    int    // after the value
	kind  jsonscan.Kind
}

// Outline is a body of which is known where its members are. It is immutable, and safe
// for concurrent use as long as its bytes are left alone.
type Outline struct {
	raw      []byte
	members  []member
	sampling []member // of the last sampling_params, if it is an object
	free     []member // objects of free arguments, in it or beside it
	end      int      // the closing brace
	cleared  bool     // raw is the client's without what was in those
	encoded  []byte   // ec_transfer_params of those who have encoded its media; nil: none
}

// Read reads a body. The Outline refers to its bytes, unless the client has put what is
// between engines among the free arguments of the engine: then to a copy without it.
func Read(raw []byte) (*Outline, error) {
	o, err := outline(raw)
	if err != nil || len(o.free) == 0 {
		return o, err
	}
	own, err := o.clear()
	if err != nil {
		return nil, err
	}
	if own == nil {
		return o, nil
	}
	if o, err = outline(own); err != nil {
		return nil, err
	}
	o.cleared = true
	return o, nil
}

// outline finds the members.
func outline(raw []byte) (*Outline, error) {
	o := &Outline{raw: raw, members: make([]member, 0, 16)}
	var s jsonscan.Scanner
	s.Reset(jsonscan.MaxDepth)
	s.Feed(raw)
	inside := false // of sampling_params
	for s.Next() {
		t := &s.Token
		into := &o.members
		if inside {
			into = &o.sampling
		}
		switch {
		case t.Depth == 0 && t.Begins():
			if t.Kind != jsonscan.ObjectBegin {
				return nil, ErrNotObject
			}
		case t.Depth == 0 && t.Ends():
			o.end = int(t.Start)
		case t.Depth == 0:
			return nil, ErrNotObject
		case inside && t.Depth == 1: // its end
			inside = false
			o.members[len(o.members)-1].to = int(t.End)
		case t.Kind == jsonscan.Key:
			if len(*into) == maxMembers {
				return nil, ErrTooMany
			}
			*into = append(*into, member{name: known(t), from: int(t.Start) - 1})
		case t.Ends():
			m := &(*into)[len(*into)-1]
			if m.to = int(t.End); m.kind == jsonscan.ObjectBegin && (m.name == keyXArgs || m.name == keyExtraArgs) {
				o.free = append(o.free, *m)
			}
		default:
			m := &(*into)[len(*into)-1]
			m.value, m.to, m.kind = int(t.Start), int(t.End), t.Kind
			switch {
			case t.Kind == jsonscan.String:
				m.value, m.to = m.value-1, m.to+1
			case t.Kind == jsonscan.ObjectBegin && m.name == keySampling && !inside:
				inside, o.sampling = true, o.sampling[:0]
			case t.Begins():
				s.Skip()
			}
		}
	}
	if err := s.End(); err != nil {
		return nil, err
	}
	if o.end == 0 {
		return nil, ErrNotObject // a number that stands alone
	}
	return o, nil
}

// find returns the last member of that name, nil if there is none.
func find(in []member, name string) *member {
	for i := len(in) - 1; i >= 0; i-- {
		if in[i].name == name {
			return &in[i]
		}
	}
	return nil
}

// Streams is true if the client asks for an answer in events.
func (o *Outline) Streams() bool {
	m := find(o.members, keyStream)
	return m != nil && m.kind == jsonscan.True
}

// Threshold is true if the client says which part of the prompt must be cached for the
// request to be decoded: any number but 0.
func (o *Outline) Threshold() bool {
	m := find(o.members, keyThreshold)
	if m == nil || m.kind != jsonscan.Number {
		return false
	}
	for _, c := range o.raw[m.value:m.to] {
		switch {
		case c >= '1' && c <= '9':
			return true
		case c == 'e' || c == 'E':
			return false // all digits before it were 0
		}
	}
	return false
}
