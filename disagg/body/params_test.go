package body_test

import (
	"encoding/json"
	"testing"

	"github.com/pointsman/pointsman/disagg/body"
)

// Whatever an engine answers: what is made of it is JSON, has what was set, and keeps the
// rest.
func FuzzParams(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a":1.0,"remote_dp_rank":[{"x":"}"}] , "b":null}`, `{"remote_dp_rank":1,"remote_dp_rank":2}`, `{"remote\u005fdp_rank":"\ud83d\ude00"}`, `[1]`, `{"a":`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := body.ReadParams(raw)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(raw, &before) != nil {
			return // it is stricter in strings
		}
		out := p.With([]body.Param{{Name: "remote_dp_rank", Value: "3"}}, []body.Param{{Name: "transfer_id", Value: `"tx"`}})
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s became %s: %v", raw, out, err)
		}
		if string(after["remote_dp_rank"]) != "3" {
			t.Errorf("%s became %s", raw, out)
		}
		if was, ok := before["transfer_id"]; ok && string(after["transfer_id"]) != string(was) || !ok && string(after["transfer_id"]) != `"tx"` {
			t.Errorf("%s became %s", raw, out)
		}
		for name, value := range before {
			if name != "remote_dp_rank" && string(after[name]) != string(value) {
				t.Errorf("%s: %q was %s and is %s", raw, name, value, after[name])
			}
		}
	})
}
