package prompt

import "encoding/binary"

// reading puts together what was read.
func (r *Reader) reading() *Reading {
	v := &r.scalars
	out := &Reading{
		Kind:       r.kind,
		Model:      v.model,
		ModelStart: v.modelStart, ModelEnd: v.modelEnd,
		Adapter: v.adapter,
		Stream:  v.stream, MaxOutputTokens: -1,
	}
	for _, n := range v.maxTokens {
		if n >= 0 {
			out.MaxOutputTokens = n
			break
		}
	}
	for _, s := range v.sessions {
		if s != "" {
			out.SessionKey = s
			break
		}
	}
	r.prompts(out)
	return out
}

// prompts joins the sections that make up the prompt of the kind.
func (r *Reader) prompts(out *Reading) {
	fields := r.fields()
	count, size, tokens := 0, int64(0), int64(0)
	for _, f := range fields {
		s := &r.sections[f-firstSection]
		count += s.to - s.from
		tokens += s.ids
	}
	if count == 0 {
		return
	}
	p := &Prompt{
		segments: make([]segment, 0, count),
		ids:      tokens > 0,
		seed:     seedOf(out.Model, out.Adapter, r.salt()),
	}
	for _, f := range fields {
		s := &r.sections[f-firstSection]
		for _, g := range r.segments[s.from:s.to] {
			if n := g.length(); n > 0 {
				size += n
				p.segments = append(p.segments, g)
			}
		}
	}
	if size == 0 {
		return
	}
	p.bytes = size
	if tokens == 0 {
		tokens = (size + 3) / 4
	}
	out.Prompt, out.PromptTokens = p, uint32(tokens)
}

// salt is what keeps tenants apart: the cache_salt, and an extra_key framed with it.
func (r *Reader) salt() string {
	v := &r.scalars
	if v.extraKey == "" {
		return v.salt
	}
	framed := binary.LittleEndian.AppendUint64(nil, uint64(len(v.salt)))
	return string(append(append(framed, v.salt...), v.extraKey...))
}

// The fields that come before the messages, in canonical order.
var preamble = [...]field{fieldTools, fieldFunctions, fieldDocuments, fieldTemplate, fieldSystem, fieldInstructions}

// fields returns the fields that make up the prompt, in order; none if the one that
// matters is missing or its shape is not known.
func (r *Reader) fields() []field {
	has := func(f field) bool {
		s := &r.sections[f-firstSection]
		return s.to > s.from && !s.bad
	}
	first := func(fields ...field) []field {
		for _, f := range fields {
			if has(f) {
				return []field{f}
			}
		}
		return nil
	}
	conversation := func(f field) []field {
		if !has(f) {
			return nil
		}
		return append(preamble[:len(preamble):len(preamble)], f)
	}
	switch r.kind {
	case Chat, Messages:
		return conversation(fieldMessages)
	case Responses:
		return conversation(fieldInput)
	case Completions, Generate:
		return first(fieldPrompt)
	case Embeddings:
		if has(fieldInput) {
			return first(fieldInput)
		}
		if has(fieldMessages) {
			return conversation(fieldMessages)
		}
		return first(fieldPrompt)
	case Rerank:
		if has(fieldQuery) || has(fieldText1) {
			return []field{fieldQuery, fieldDocuments, fieldText1, fieldText2}
		}
		return first(fieldInput)
	case Shape:
		if has(fieldMessages) {
			return conversation(fieldMessages)
		}
		return first(fieldPrompt, fieldInput)
	default:
		return nil
	}
}
