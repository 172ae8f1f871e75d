package route

import (
	"fmt"
	"math"
)

// weighed says what went into the totals.
type weighed struct {
	// scorers is how many gave scores.
	scorers int
	// weight is the sum of their |weights|.
	weight float64
	// counting is true if any of them rates by counts of requests.
	counting bool
	// clean is true if all of their scores are known to be between 0 and 1.
	clean bool
}

// combine adds weight × score of every scorer to the totals. A candidate that a
// scorer abstained on gets the mean of the scores that this scorer did give, and a
// scorer that gave none counts for nobody, so neither changes anybody's order among
// the others.
func combine(res *ProfileResult) (weighed, error) {
	sum := weighed{clean: true}
	for i := range res.Scores {
		sc, by := &res.Scores[i], &res.Profile.Scorers[i]
		clean := check(sc, len(res.Totals))
		switch sc.Verdict {
		case Scored:
			add(res.Totals, sc, by.Weight, clean)
			sum.scorers++
			sum.weight += math.Abs(by.Weight)
			sum.counting = sum.counting || sc.RequestsPerPoint > 0
			sum.clean = sum.clean && clean
		case Abstained:
		default:
			if by.FailClosed {
				return sum, fmt.Errorf("%w: %q: %s: %s", ErrScorerFailed, by.Plugin, sc.Verdict, sc.Reason)
			}
		}
	}
	return sum, nil
}

// check makes an answer that breaks the rules a failure of its scorer, and one
// without any opinion an abstention. clean is true if all values are known to be
// between 0 and 1.
func check(sc *Scores, n int) (clean bool) {
	if sc.Verdict < Scored || sc.Verdict > Skipped {
		sc.Verdict, sc.Reason = Failed, "no answer"
	}
	if sc.Verdict != Scored {
		return false
	}
	clean = InRange(sc.Values)
	fault := faultOfShape(sc, n)
	if fault == "" && !clean {
		fault = faultOfValues(sc)
	}
	switch {
	case fault != "":
		sc.Verdict, sc.Reason = Failed, fault
	case len(sc.AbstainedOn) == n:
		sc.Verdict = Abstained
	}
	return clean
}

func faultOfShape(sc *Scores, n int) string {
	if len(sc.Values) != n {
		return fmt.Sprintf("%d scores for %d candidates", len(sc.Values), n)
	}
	if len(sc.Matched) != 0 && len(sc.Matched) != n {
		return fmt.Sprintf("%d matched block counts for %d candidates", len(sc.Matched), n)
	}
	last := -1
	for _, at := range sc.AbstainedOn {
		if int(at) <= last || int(at) >= n {
			return fmt.Sprintf("abstained on candidate %d of %d, out of order or range", at, n)
		}
		last = int(at)
	}
	return ""
}

func faultOfValues(sc *Scores) string {
	abstained := sc.AbstainedOn
	for i, v := range sc.Values {
		if len(abstained) > 0 && int(abstained[0]) == i {
			abstained = abstained[1:]
			continue
		}
		if v-v != 0 { // NaN or infinite
			return fmt.Sprintf("score of candidate %d is %v", i, v)
		}
	}
	return ""
}

// InRange says whether all values are between 0 and 1; it may say no to −0. As bits, such
// floats are at most those of 1; a sign, an infinity or NaN makes them greater. Which shows
// in the highest bit, either of the value or of its distance to 1, of all values at once.
func InRange(values []float32) bool {
	one, outside := math.Float32bits(1), uint32(0)
	for _, v := range values {
		bits := math.Float32bits(v)
		outside |= bits | (one - bits)
	}
	return outside>>31 == 0
}

func add(totals []float64, sc *Scores, weight float64, clean bool) {
	if len(sc.AbstainedOn) == 0 {
		totals = totals[:len(sc.Values)]
		if clean {
			for i, v := range sc.Values {
				totals[i] += weight * float64(v)
			}
			return
		}
		for i, v := range sc.Values {
			totals[i] += weight * clamp(v)
		}
		return
	}
	given, abstained := 0.0, sc.AbstainedOn
	for i, v := range sc.Values {
		if len(abstained) > 0 && int(abstained[0]) == i {
			abstained = abstained[1:]
			continue
		}
		given += clamp(v)
	}
	sc.Neutral = given / float64(len(sc.Values)-len(sc.AbstainedOn))
	abstained = sc.AbstainedOn
	for i, v := range sc.Values {
		if len(abstained) > 0 && int(abstained[0]) == i {
			abstained = abstained[1:]
			totals[i] += weight * sc.Neutral
			continue
		}
		totals[i] += weight * clamp(v)
	}
}

func clamp(v float32) float64 { return float64(min(max(v, 0), 1)) }
