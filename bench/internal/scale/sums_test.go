package scale

import (
	"math"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// What a pool takes is counted by hand from the constants.
func TestSums(t *testing.T) {
	p := Point{Endpoints: 1000, Picks: 10_000, KB: 8, Routers: 4, Scorers: 2, Indexers: 3}
	p.Scrape = 1e9
	s, err := SumOf(Formulas(synthetic()), p)
	if err != nil {
		t.Fatal(err)
	}
	batches := p.together()
	m := 2.2 * batches / 10_000
	outcomes, prompts, state := 45*batches+50*10_000, 35*batches+20*10_000+8*10_000*128, 1060+224*1000.0
	near(t, "messages per pick", s.In, m)
	near(t, "into NATS", s.InMB, (outcomes+prompts+state)/1e6)
	near(t, "out of NATS", s.OutMB, ((outcomes+state)*(4+3+4)+prompts*3)/1e6)
	near(t, "blocks", s.Blocks, 1_280_000)
	near(t, "router cores", s.Cores[router], ((50+1.5*8+0.02*1000+3*3+9*4*m)*10_000+4*(4000+1600))/1e6)
	near(t, "a router follows", s.Following[router], (3*3+9*4*m)*10_000/4/1e6)
	near(t, "an indexer follows", s.Following[indexer], (3+20*m+0.06*128)*10_000/1e6)
	near(t, "collector cores", s.Cores[collector], (12000+20*1000+36*1000)/1e6)
}

// What is scarcest comes first, and what grows with endpoints is told in endpoints.
func TestLimits(t *testing.T) {
	s, err := SumOf(Formulas(synthetic()), Pools()[2])
	if err != nil {
		t.Fatal(err)
	}
	limits := s.Limits()
	if len(limits) != 7 {
		t.Fatalf("%d limits: candidates, NATS, new prompts and four kinds that follow", len(limits))
	}
	for i := 1; i < len(limits); i++ {
		if limits[i].Used() > limits[i-1].Used() {
			t.Errorf("%q is after %q", limits[i].What, limits[i-1].What)
		}
	}
	text := strings.Join(LimitTable(&s), "\n")
	for _, want := range []string{"| candidates in one call of a scorer | 10000 | 4096 endpoints | 244 % | 4096 endpoints |", "each prefix-indexer |", " requests/s |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

// The example ends with the figure of the table.
func TestExample(t *testing.T) {
	formulas := Formulas(synthetic())
	s, err := SumOf(formulas, Pools()[1])
	if err != nil {
		t.Fatal(err)
	}
	text := Example(formulas, &s)
	for _, want := range []string{
		"2.20 × 1667 = 3667 a second, so m = 0.367.",
		"50.0 + 1.50 × 8.00 + 0.0200 × 1000 + 3.00 × 3.00 + 9.00 × 1.47 = 104 µs; at 10000/s that is 1.04 cores.",
		"Idle: 4000 + 1.60 × 1000 = 5600 µs a second, for each of 4. Both together: " + significant(s.Cores[router]) + " cores.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the example lacks %q: %s", want, text)
		}
	}
	if table := strings.Join(SumTable([]Sum{s}), "\n"); !strings.Contains(table, "| scarcest of what more replicas do not mend | learning prompts of which nothing is known, each prefix-indexer: 25.6 % |") {
		t.Errorf("the table lacks what is scarcest:\n%s", table)
	}
}

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1.2345: "1.23", 12.345: "12.3", 123.45: "123", 12345: "12345", 1: "1.00", 0.99999: "1.00", 9.996: "10.0", 9.98: "9.98"} {
		if got := significant(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
