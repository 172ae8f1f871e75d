package prompt

import "encoding/binary"

// reading puts together what was read.
func (r *Reader) reading() *Reading {
	v := &r.scalars
	both := new(readingAndPrompt)
	out := &both.reading
	*out = Reading{
		Kind:       r.kind,
		Model:      v.model,
		ModelStart: v.modelStart, ModelEnd: v.modelEnd,
		Adapter: v.adapter,
		Stream:  v.stream, Media: v.media, MaxOutputTokens: -1,
		body: extent{root: r.root, keys: r.keys, salt: v.salt, extraKey: v.extraKey, salts: v.salts},
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
	r.prompts(out, &both.prompt)
	return out
}

// readingAndPrompt is what is read of a body, in one allocation.
type readingAndPrompt struct {
	reading Reading
	prompt  Prompt
}

// prompts joins the sections that make up the prompt of the kind, in p.
func (r *Reader) prompts(out *Reading, p *Prompt) {
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
	p.segments = p.few[:0]
	if count > len(p.few) {
		p.segments = make([]segment, 0, count)
	}
	p.ids, p.seed = tokens > 0, seedOf(out.Model, out.Adapter, r.salt())
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
	switch r.kind {
	case Chat, Messages:
		return r.conversation(fieldMessages)
	case Responses:
		return r.conversation(fieldInput)
	case Completions, Generate:
		return r.first(fieldPrompt)
	case Embeddings:
		if r.has(fieldInput) {
			return r.first(fieldInput)
		}
		if r.has(fieldMessages) {
			return r.conversation(fieldMessages)
		}
		return r.first(fieldPrompt)
	case Rerank:
		if r.has(fieldQuery) || r.has(fieldText1) {
			return []field{fieldQuery, fieldDocuments, fieldText1, fieldText2}
		}
		return r.first(fieldInput)
	case Shape:
		if r.has(fieldMessages) {
			return r.conversation(fieldMessages)
		}
		return r.first(fieldPrompt, fieldInput)
	default:
		return nil
	}
}

func (r *Reader) has(f field) bool {
	s := &r.sections[f-firstSection]
	return s.to > s.from && !s.bad
}

// first returns the first of the fields that is there.
func (r *Reader) first(fields ...field) []field {
	for _, f := range fields {
		if r.has(f) {
			return append(r.joined[:0], f)
		}
	}
	return nil
}

// conversation returns the field with what comes before it, if it is there.
func (r *Reader) conversation(f field) []field {
	if !r.has(f) {
		return nil
	}
	return append(append(r.joined[:0], preamble[:]...), f)
}
