package scale

import (
	"fmt"
	"math"
	"strings"
)

// FormulaTable writes the formulas, with how far they are from what was measured.
func FormulaTable(formulas []Formula) []string {
	lines := []string{
		"| of | measured | unit | formula | standard errors | median, worst error | cells | worst at |",
		"|---|---|---|---|---|---|---|---|",
	}
	for _, f := range formulas {
		if f.Reason != "" {
			lines = append(lines, fmt.Sprintf("| %s | %s | %s | none: %s | | | %d of %d | |", f.Of, f.Load, f.Unit, f.Reason, f.Points, f.Cells))
			continue
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %.0f %%, %.0f %% | %d of %d | %s |", f.Of, f.Load, f.Unit, f.text(), f.errorsText(),
			100*f.MedianError, 100*f.WorstError, f.Points, f.Cells, f.Worst))
	}
	return lines
}

// text writes a formula. What costs nothing is not in it.
func (f *Formula) text() string {
	var parts []string
	for _, t := range f.Terms {
		switch {
		case t.Constant == 0:
		case t.Name == "1":
			parts = append(parts, significant(t.Constant))
		default:
			parts = append(parts, significant(t.Constant)+"·"+t.Name)
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " + ")
}

func (f *Formula) errorsText() string {
	var parts []string
	for _, t := range f.Terms {
		if t.Constant > 0 {
			parts = append(parts, "± "+significant(t.Error))
		}
	}
	return strings.Join(parts, ", ")
}

// significant writes a number with three digits that count, or all before the point.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))+5e-4)) // 9.999 is written as 10.0
	return fmt.Sprintf("%.*f", max(0, digits), v)
}

// SumTable writes what pools take, side by side, and after it, for the last, what of it
// is scarcest.
func SumTable(sums []Sum) []string {
	head, rule := []string{""}, []string{"---"}
	for _, s := range sums {
		head = append(head, fmt.Sprintf("%.0f endpoints, %.0f requests/s of %.0f KB; %.0f routers, %.0f prefix-indexers, %.0f each of scorer-queue and scorer-kv; scraped every %v",
			s.Endpoints, s.Picks, s.KB, s.Routers, s.Indexers, s.Scorers, s.Scrape))
		rule = append(rule, "---")
	}
	lines := []string{row(head), row(rule)}
	add := func(what string, figure func(*Sum) string) {
		cells := []string{what}
		for i := range sums {
			cells = append(cells, figure(&sums[i]))
		}
		lines = append(lines, row(cells))
	}
	for _, kind := range kinds() {
		add(kind+": cores, all replicas", func(s *Sum) string { return significant(s.Cores[kind]) })
	}
	add("all: cores", func(s *Sum) string {
		sum := 0.0
		for _, c := range s.Cores {
			sum += c
		}
		return significant(sum)
	})
	for _, kind := range []string{router, queue, kv, indexer} {
		add("one "+kind+": share of a core that follows the broadcast", func(s *Sum) string {
			return percent(s.Following[kind]) + " ± " + percent(s.FollowingError[kind])
		})
	}
	add("blocks learned per second, each prefix-indexer", func(s *Sum) string { return significant(s.Blocks) })
	add("prompts to each prefix-indexer, MB/s", func(s *Sum) string { return significant(s.PromptMB) })
	add("into NATS, MB/s", func(s *Sum) string { return significant(s.InMB) })
	add("out of NATS, MB/s", func(s *Sum) string { return significant(s.OutMB) })
	add("out of NATS, messages/s", func(s *Sum) string { return significant(s.Messages) })
	add("scarcest of what more replicas do not mend", func(s *Sum) string {
		l := s.Limits()[0]
		return l.What + ": " + percent(l.Used())
	})
	return lines
}

// Example writes out how the routers' cores of a sum come about.
func Example(formulas []Formula, s *Sum) string {
	pick, idle, messages := find(formulas, router, Closed, perPick), find(formulas, router, Idle, perSecond), find(formulas, flow, Closed, messagesIn)
	return fmt.Sprintf("For example, the routers of the pool with %.0f requests/s. Messages into NATS: %s = %s a second, so m = %s. A pick: %s = %s µs; at %.0f/s that is %s cores. Idle: %s = %s µs a second, for each of %.0f. Both together: %s cores.",
		s.Picks, messages.reckoned(s.Point), significant(messages.At(s.Point)), significant(s.In),
		pick.reckoned(s.Point), significant(pick.At(s.Point)), s.Picks, significant(pick.At(s.Point)*s.Picks/1e6),
		idle.reckoned(s.Point), significant(idle.At(s.Point)), s.Routers, significant(s.Cores[router]))
}

// reckoned writes a formula with the values that its terms have at a point.
func (f *Formula) reckoned(p Point) string {
	var parts []string
	for i, v := range values(f.terms, p) {
		switch t := f.Terms[i]; {
		case t.Constant == 0 || v == 0:
		case t.Name == "1":
			parts = append(parts, significant(t.Constant))
		default:
			parts = append(parts, significant(t.Constant)+" × "+significant(v))
		}
	}
	return strings.Join(parts, " + ")
}

// LimitTable writes what is scarcest in a pool.
func LimitTable(s *Sum) []string {
	lines := []string{"| what | needs | has | in use | enough for |", "|---|---|---|---|---|"}
	for _, l := range s.Limits() {
		enough := significant(s.Picks/l.Used()) + " requests/s"
		if l.ByEndpoints {
			enough = significant(s.Endpoints/l.Used()) + " endpoints"
		}
		needs := significant(l.Needs)
		if l.Error > 0 {
			needs += " ± " + significant(l.Error)
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s %s | %s | %s |", l.What, needs, significant(l.Has), l.Unit, percent(l.Used()), enough))
	}
	return lines
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

func percent(share float64) string { return significant(100*share) + " %" }
