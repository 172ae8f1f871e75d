package filter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

type headers map[string]string

func (h headers) Get(name string) string { return h[name] }

// Rows E30 to E33. Ports are all 8000 in routetest's pods but for those set here.
func TestHeaderFilter(t *testing.T) {
	pods := []pod{{Host: "10.0.0.1", Port: 3000}, {Host: "10.0.0.1", Port: 3002}, {Host: "10.0.0.2", Port: 3000}, {Host: "10.0.0.3", Port: 3004}, {Host: "fd00::3", Port: 3004}}
	for _, c := range []struct {
		name, header string
		want         []int32
	}{
		{"E30 unset", "", nil},
		{"E30 no match", "10.9.9.9", nil},
		{"E32", "10.0.0.1:3002", []int32{1}},
		{"E33 no doubles; the order is the picker's", "10.0.0.3:3004, 10.0.0.2, 10.0.0.3", []int32{2, 3}},
		{"every port of an address", "10.0.0.1", []int32{0, 1}},
		{"IPv6", "fd00::3", []int32{4}},
		{"IPv6 with port", "[fd00::3]:3004", []int32{4}},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:3000", []int32{0}},
		{"noise", "x, ,10.0.0.1:99999,10.0.0.2:0,:1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cycle := routetest.Cycle(t, &route.Request{Headers: headers{SelectionHeader: c.header}}, pods...)
			got := NewHeader("h").Filter(cycle, routetest.Positions(len(pods)))
			if diff := cmp.Diff(c.want, nilIfEmpty(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// text is a prompt without blocks.
type text struct{}

func (text) Blocks(int, int) []uint64 { return nil }
func (text) Text() string             { return "" }

func TestLengthFilter(t *testing.T) {
	ranges := func(all ...string) (pods []pod) {
		for _, r := range all {
			if r == "none" {
				pods = append(pods, pod{})
			} else {
				pods = append(pods, labelled(DefaultLengthLabel, r))
			}
		}
		return pods
	}
	for _, c := range []struct {
		name   string
		tokens uint32
		prompt route.Prompt
		pods   []pod
		want   []int32
	}{
		{"E35", 0, text{}, ranges("0-100", "100-500", "0-2000", "none"), []int32{0, 2, 3}},
		{"E36", 42, text{}, ranges("0-52", "142-242"), []int32{0}},
		{"bounds are inside", 100, text{}, ranges("0-100", "100-500", "101-102", "0-99"), []int32{0, 1}},
		{"E38", 0, text{}, ranges("0-100", "", "0-100-200", "100-50", "abc-100"), []int32{0}},
		{"a length that is not known", 0, nil, ranges("0-100", "100-500"), []int32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cycle := routetest.Cycle(t, &route.Request{PromptTokens: c.tokens, Prompt: c.prompt, Headers: route.NoHeaders{}}, c.pods...)
			f := must(NewLength("l", DefaultLengthLabel))
			if diff := cmp.Diff(c.want, nilIfEmpty(f.Filter(cycle, routetest.Positions(len(c.pods))))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := NewLength("l", ""); err == nil {
		t.Error("an empty label is no fault")
	}
}
