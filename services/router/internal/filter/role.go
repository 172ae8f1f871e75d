package filter

// Type names of the filters that go by the role of an endpoint in disaggregated
// serving.
const (
	DecodeType  = "decode-filter"
	PrefillType = "prefill-filter"
	EncodeType  = "encode-filter"
)

// RoleLabel is the label that tells an endpoint's role.
const RoleLabel = "llm-d.ai/role"

// NewDecode returns the filter of who can decode: every role with decode in it, "both"
// (of prefill and decode), and endpoints without a role or with an empty one.
func NewDecode(name string) *ByLabel {
	return &ByLabel{
		name: name, label: RoleLabel, allowsNone: true,
		values: []string{"decode", "prefill-decode", "encode-prefill-decode", "both", ""},
	}
}

// NewPrefill returns the filter of who can prefill: every role with prefill in it, and
// "both".
func NewPrefill(name string) *ByLabel {
	return &ByLabel{
		name: name, label: RoleLabel,
		values: []string{"prefill", "prefill-decode", "encode-prefill", "encode-prefill-decode", "both"},
	}
}

// NewEncode returns the filter of who can encode media: every role with encode in it.
// "both" is of prefill and decode, so it is not among them.
func NewEncode(name string) *ByLabel {
	return &ByLabel{
		name: name, label: RoleLabel,
		values: []string{"encode", "encode-prefill", "encode-prefill-decode"},
	}
}
