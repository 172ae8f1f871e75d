package usage

// Counts is what was reported. Negative: not reported.
type Counts struct {
	// Prompt are the tokens of the prompt, cached ones included.
	Prompt int64
	// Cached are those of them that were found in the prefix cache.
	Cached int64
	// Output are the generated tokens.
	Output int64
	// Total is the sum as the engine reports it.
	Total int64
}

// None is a Counts in which nothing is reported.
func None() Counts { return Counts{-1, -1, -1, -1} }

// merge takes over what is reported in o.
func (c *Counts) merge(o Counts) {
	for _, f := range [...]struct {
		to   *int64
		from int64
	}{{&c.Prompt, o.Prompt}, {&c.Cached, o.Cached}, {&c.Output, o.Output}, {&c.Total, o.Total}} {
		if f.from >= 0 {
			*f.to = f.from
		}
	}
}
