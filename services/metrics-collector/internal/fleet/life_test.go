package fleet

import (
	"testing"
	"time"
)

func TestLifeID(t *testing.T) {
	for _, c := range []struct {
		address string
		number  int
		id      ID
	}{
		{"10.0.0.1:8000", 1, "10.0.0.1:8000"},
		{"10.0.0.1:8000", 2, "10.0.0.1:8000#2"},
		{"[fd00::1]:8000", 13, "[fd00::1]:8000#13"},
	} {
		if got := lifeID(c.address, c.number); got != c.id {
			t.Errorf("lifeID(%q, %d) = %q, want %q", c.address, c.number, got, c.id)
		}
		if n, ok := lifeNumber(c.id, c.address); !ok || n != c.number {
			t.Errorf("lifeNumber(%q) = %d, %v, want %d", c.id, n, ok, c.number)
		}
	}
	for _, id := range []ID{"", "pod-1", "10.0.0.1:80001", "10.0.0.1:8000#", "10.0.0.1:8000#1", "10.0.0.1:8000#02", "10.0.0.1:8000#-3", "10.0.0.1:8000#99999999999"} {
		if n, ok := lifeNumber(id, "10.0.0.1:8000"); ok {
			t.Errorf("lifeNumber(%q) = %d, want none", id, n)
		}
	}
}

func TestLives(t *testing.T) {
	const a = "10.0.0.1:8000"
	start := time.Unix(1000, 0)
	at := start.Add
	for name, c := range map[string]struct {
		do   func(ls lives)
		want int
	}{
		"first life": {func(ls lives) { ls.appear(a, 0, start) }, 1},
		"first life here, another has it": {func(ls lives) {
			ls.hear(a, 4, start)
			ls.appear(a, 4, at(time.Second))
		}, 4},
		"came back": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.leave(a, at(time.Second))
			ls.appear(a, 0, at(2*time.Second))
		}, 2},
		"came back, the other has not seen it leave": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.hear(a, 1, start)
			ls.leave(a, at(time.Second))
			ls.appear(a, 1, at(2*time.Second))
		}, 2},
		"came back, the other saw it earlier": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.leave(a, at(time.Second))
			ls.hear(a, 2, at(2*time.Second))
			ls.appear(a, 2, at(3*time.Second))
		}, 2},
		"the other saw all of it before it left here": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.hear(a, 2, at(time.Second))
			ls.leave(a, at(2*time.Second))
			ls.appear(a, 2, at(3*time.Second))
		}, 2},
		"a further return, after a number taken over settled": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.hear(a, 2, at(time.Second))
			ls.leave(a, at(10*time.Minute))
			ls.appear(a, 2, at(10*time.Minute+time.Second))
		}, 3},
		"lower number heard": {func(ls lives) {
			ls.appear(a, 5, start)
			ls.hear(a, 2, at(time.Second))
		}, 5},
		"remembered for ten minutes": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.leave(a, start)
			ls.expire(at(10 * time.Minute))
			ls.appear(a, 0, at(10*time.Minute))
		}, 2},
		"forgotten after that": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.leave(a, start)
			ls.expire(at(10*time.Minute + time.Second))
			ls.appear(a, 0, at(10*time.Minute+time.Second))
		}, 1},
		"not forgotten while another has it": {func(ls lives) {
			ls.appear(a, 0, start)
			ls.leave(a, start)
			ls.hear(a, 1, at(10*time.Minute))
			ls.expire(at(11 * time.Minute))
			ls.appear(a, 1, at(11*time.Minute))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ls := make(lives)
			c.do(ls)
			if l := ls[a]; l == nil || !l.present || l.number != c.want {
				t.Errorf("life %+v, want present with number %d", l, c.want)
			}
		})
	}
}
