package filter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCriticalFilters(t *testing.T) {
	models := []string{"sql-lora", "meta-llama/Llama-2-7b-hf"}
	is := NewCriticalModel("critical", models)
	room := must(NewSheddableCapacity("room", models, DefaultSheddableQueue, DefaultSheddableKV))
	nobody := must(NewSheddableCapacity("room", nil, DefaultSheddableQueue, DefaultSheddableKV))
	pods := []pod{{Waiting: 5, KV: .8}, {Waiting: 6, KV: .1}, {Waiting: 0, KV: .81}, {Unscraped: true}, {Waiting: 900, KV: 1, Age: time.Minute}, {Waiting: 1, KV: -1}, {Waiting: 6, KV: -1}}
	for _, c := range []struct {
		name  string
		keeps []int32
		got   []int32
	}{
		{"critical", []int32{0, 1, 2, 3, 4, 5, 6}, run(t, is, "sql-lora", pods...)},
		{"names are exact", nil, run(t, is, "SQL-lora", pods...)},
		{"not critical", nil, run(t, is, "other", pods...)},
		{"room for all that is critical", []int32{0, 1, 2, 3, 4, 5, 6}, run(t, room, "meta-llama/Llama-2-7b-hf", pods...)},
		{"room: waiting ≤ 5 and KV ≤ 0.8; D11: what is unknown is not held against anybody", []int32{0, 3, 4, 5}, run(t, room, "other", pods...)},
		{"C8 no critical model", []int32{0, 3, 4, 5}, run(t, nobody, "sql-lora", pods...)},
		{"room for nobody", nil, run(t, room, "other", pod{Waiting: 6}, pod{KV: .9})},
	} {
		if diff := cmp.Diff(c.keeps, append([]int32(nil), c.got...)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for _, bad := range []error{
		second(NewSheddableCapacity("x", nil, -1, .5)), second(NewSheddableCapacity("x", nil, 1, 1.1)), second(NewSheddableCapacity("x", nil, 1, -.1)),
	} {
		if bad == nil {
			t.Error("a bad threshold is taken")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Higress D1, with those that nobody knows; its other predicates: TestHigressD1D2Predicates.
func TestD1LoRACost(t *testing.T) {
	pods := []pod{
		{Active: []string{"adapter-a"}, Max: 2}, {Max: 2}, {Active: []string{"other", "x"}, Max: 2}, {}, {Active: []string{"other", "adapter-a"}, Max: 2},
		{Active: []string{"x"}, Queued: []string{"y"}, Max: 2},
	}
	if diff := cmp.Diff([]int32{0, 1, 3, 4}, run(t, NewLoRACost("cost"), "adapter-a", pods...)); diff != "" {
		t.Error(diff)
	}
}
