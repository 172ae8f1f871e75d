package fleet

import (
	"strconv"
	"strings"
	"time"
)

const (
	// lifeMemory is how long the number of an endpoint that is gone is kept.
	lifeMemory = 10 * time.Minute
	// settleTime is how much later one collector may see a change than another.
	settleTime = 2 * time.Minute
)

// lives counts the lives of addresses.
type lives map[string]*life

// life is what is known of an address. See the package's comment for the rules.
type life struct {
	number  int       // in use, or used last
	own     int       // the highest number that rests on what was seen here
	present bool      // among the targets
	adopted time.Time // when number was last taken from another collector
	last    time.Time // when it was last seen, here or in another's table
}

// lifeID returns the id of a life.
func lifeID(address string, number int) ID {
	if number == 1 {
		return ID(address)
	}
	return ID(address + "#" + strconv.Itoa(number))
}

// lifeNumber returns the number in an id of the address, and false if it is the id of
// something else.
func lifeNumber(id ID, address string) (int, bool) {
	rest, ok := strings.CutPrefix(string(id), address)
	if !ok {
		return 0, false
	}
	if rest == "" {
		return 1, true
	}
	digits, ok := strings.CutPrefix(rest, "#")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 1 && n < 1<<31 && strconv.Itoa(n) == digits
}

// appear notes that an address is among the targets. live is the highest number under
// which another live collector has it now, 0 if none has.
func (ls lives) appear(address string, live int, now time.Time) {
	l := ls[address]
	switch {
	case l == nil:
		l = &life{number: max(live, 1)}
		ls[address] = l
	case l.present:
		return
	case live > l.own:
		l.number = max(live, l.number)
	default:
		l.number++
	}
	l.own, l.present, l.last = l.number, true, now
}

// leave notes that an address is no longer among the targets.
func (ls lives) leave(address string, now time.Time) {
	if l := ls[address]; l != nil && l.present {
		l.settle(now)
		l.present, l.last = false, now
	}
}

// hear notes a number in another collector's table. It returns true if the address is
// among the targets and has a new number.
func (ls lives) hear(address string, number int, now time.Time) bool {
	l := ls[address]
	if l == nil {
		ls[address] = &life{number: number, adopted: now, last: now}
		return false
	}
	l.last = now
	if number <= l.number {
		return false
	}
	l.settle(now)
	l.number, l.adopted = number, now
	return l.present
}

// settle makes a number that was taken over long ago one's own: by now this collector
// has seen what the other had seen.
func (l *life) settle(now time.Time) {
	if l.own < l.number && now.Sub(l.adopted) > settleTime {
		l.own = l.number
	}
}

// expire forgets addresses that nobody has had for long.
func (ls lives) expire(now time.Time) {
	for address, l := range ls {
		if !l.present && now.Sub(l.last) > lifeMemory {
			delete(ls, address)
		}
	}
}
