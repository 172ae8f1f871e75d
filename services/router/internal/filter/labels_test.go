package filter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// labelled returns a pod with labels, given as name, value, name, value.
func labelled(pairs ...string) pod {
	var p pod
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Labels = append(p.Labels, roster.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return p
}

// roles returns pods of these roles; "none" has no such label.
func roles(names ...string) []pod {
	var pods []pod
	for _, r := range names {
		if r == "none" {
			pods = append(pods, pod{})
			continue
		}
		pods = append(pods, labelled(RoleLabel, r))
	}
	return pods
}

func TestFiltersByLabel(t *testing.T) {
	shop := []pod{labelled("app", "nginx", "version", "v1.0", "tier", "web"), labelled("app", "nginx", "version", "v1.1", "tier", ""), labelled("app", "redis")}
	all := roles("decode", "prefill", "prefill-decode", "both", "encode-prefill-decode", "encode", "encode-prefill", "none", "")
	selector := func(match map[string]string, expressions ...Requirement) route.Filter {
		return must(NewSelector("s", match, expressions))
	}
	for _, c := range []struct {
		name string
		f    route.Filter
		pods []pod
		want []int32
	}{
		{"E11", must(NewByLabel("b", "version", []string{"v1.0"}, false)), shop, []int32{0}},
		{"E12", must(NewByLabel("b", "tier", nil, true)), shop, []int32{2}},
		{"E15", NewDecode("d"), all, []int32{0, 2, 3, 4, 7, 8}},
		{"E16 prefill", NewPrefill("p"), all, []int32{1, 2, 3, 4, 6}},
		{"E17", NewEncode("e"), roles("decode", "prefill", "encode", "encode-prefill", "encode-prefill-decode", "none"), []int32{2, 3, 4}},
		{"E17 both", NewEncode("e"), roles("both"), nil},

		{"matchLabels", selector(map[string]string{"app": "nginx"}), shop, []int32{0, 1}},
		{"all of matchLabels", selector(map[string]string{"app": "nginx", "version": "v1.1"}), shop, []int32{1}},
		{"In", selector(nil, Requirement{"version", In, []string{"v1.1", "v2"}}), shop, []int32{1}},
		{"NotIn is met without the label", selector(nil, Requirement{"version", NotIn, []string{"v1.1"}}), shop, []int32{0, 2}},
		{"Exists, an empty value too", selector(nil, Requirement{"tier", Exists, nil}), shop, []int32{0, 1}},
		{"DoesNotExist", selector(nil, Requirement{"tier", DoesNotExist, nil}), shop, []int32{2}},
		{"labels and expressions", selector(map[string]string{"app": "nginx"}, Requirement{"version", NotIn, []string{"v1.0"}}), shop, []int32{1}},
		{"an empty selector is for everybody", selector(nil), shop, []int32{0, 1, 2}},
		{"nobody", selector(map[string]string{"app": "mysql"}), shop, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, nilIfEmpty(run(t, c.f, "m", c.pods...))); diff != "" {
				t.Error(diff)
			}
			if _, load := c.f.(route.LoadFilter); load {
				t.Error("labels are not load: leaving nobody is 503")
			}
		})
	}
}

func nilIfEmpty(v []int32) []int32 {
	if len(v) == 0 {
		return nil
	}
	return v
}

func TestE14LabelFaults(t *testing.T) {
	if _, err := NewByLabel("b", "", []string{"x"}, false); err == nil {
		t.Error("no label is no fault")
	}
	if _, err := NewByLabel("b", "tier", nil, false); err == nil {
		t.Error("a filter that nobody passes is no fault")
	}
	_, err := NewSelector("s", map[string]string{"": "x"}, []Requirement{{"", In, []string{"x"}}, {"a", In, nil}, {"a", Exists, []string{"x"}}, {"a", "Gt", []string{"1"}}})
	for _, want := range []string{"matchLabels", "matchExpressions[0]", "key is missing", "[1]: operator In needs values", "[2]: operator Exists takes no values", `[3]: operator "Gt" is unknown`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
