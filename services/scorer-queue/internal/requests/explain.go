package requests

import (
	"fmt"
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// explain says in words where the scores come from.
func (t *Type) explain(instance any, c *columns) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(c.expected))
	for i := range c.expected {
		var text string
		switch {
		case c.scraped[i] < 0:
			text = fmt.Sprintf("%s requests not known", t.figure.name)
		case c.expected[i] < 0:
			text = fmt.Sprintf("figures are %s old", c.ages[i].Round(100*time.Millisecond))
		default:
			text = t.rating.words(instance, c, i, t.figure.name)
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}
