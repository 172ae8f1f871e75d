// Package simple makes a scorer service of one small interface, [Scorer].
//
//	type warm struct{}
//
//	func (warm) Score(_ context.Context, r simple.Request) (simple.Scores, error) {
//		s := r.NewScores()
//		for i, c := range r.Candidates {
//			if t, ok := c.Label("temperature"); ok && t == "warm" {
//				s.Values[i] = 1
//			}
//		}
//		return s, nil
//	}
//
// [Serve] gives it the whole contract: Score, ScoreStream with batches and taught
// tables, parameters, health, limits, checks of every answer, and an end at which no
// call is lost. What a candidate is, whether it was listed or named by its position
// in a table, the Scorer need not know.
//
// It is built on package scorer, whose Type interface is the other door: it hands out
// the messages themselves, allocates nothing, and lets a type resolve tables on its
// own. The scorers that come with Pointsman use that one. Both may serve side by side,
// since [Type.Build] turns one into the other.
package simple
