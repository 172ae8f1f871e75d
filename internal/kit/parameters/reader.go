package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Reader picks parameters out of an object by name. It belongs to one goroutine.
type Reader struct {
	keys      []string         // as they are spelt
	values    map[string]value // by lower-case key
	faults    []*scorerv1.ParameterFault
	inEffect  map[string][]byte // as JSON, by key as spelt
	exclusive [][]string
}

// value is one parameter as it was given.
type value struct {
	key  string // as written
	text json.RawMessage
}

// Read takes the object apart. keys are all that a type takes, as they are spelt; none
// if it takes no parameters.
func Read(parametersJSON []byte, keys ...string) *Reader {
	r := &Reader{keys: keys, values: make(map[string]value), inEffect: make(map[string][]byte)}
	if len(bytes.TrimSpace(parametersJSON)) == 0 {
		return r
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(parametersJSON, &given); err != nil {
		r.Fault("", "a JSON object is wanted")
		return r
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		lower := strings.ToLower(key)
		known := slices.ContainsFunc(keys, func(k string) bool { return strings.ToLower(k) == lower })
		before, twice := r.values[lower]
		switch {
		case !known && len(keys) == 0:
			r.Fault(key, "unknown key; there are no parameters")
		case !known:
			r.Fault(key, "unknown key; %s", conf.Hint(key, keys))
		case twice:
			r.Fault(key, "set twice, also as %s", before.key)
		case string(given[key]) != "null":
			r.values[lower] = value{key, given[key]}
		}
	}
	return r
}

// Faults returns what is wrong; empty if nothing is.
func (r *Reader) Faults() []*scorerv1.ParameterFault { return r.faults }

// Fault notes a fault of a key, or of the parameters as a whole if key is empty.
func (r *Reader) Fault(key, format string, args ...any) {
	r.faults = append(r.faults, &scorerv1.ParameterFault{Key: key, Message: fmt.Sprintf(format, args...)})
}

// Exclusive allows only one of several keys, of which the first is in effect if none is
// set.
func (r *Reader) Exclusive(keys ...string) {
	r.exclusive = append(r.exclusive, keys)
	var set []string
	for _, k := range keys {
		if v, ok := r.values[strings.ToLower(k)]; ok {
			set = append(set, v.key)
		}
	}
	if len(set) > 1 {
		r.Fault(set[1], "give only one of %s", strings.Join(set, ", "))
	}
}

// Whole returns a whole number between least and most, or otherwise if it is not set
// or not one.
func (r *Reader) Whole(key string, otherwise, least, most int64) int64 {
	n := r.whole(key, otherwise, least, most)
	r.InEffect(key, n)
	return n
}

func (r *Reader) whole(key string, otherwise, least, most int64) int64 {
	v, ok := r.values[strings.ToLower(key)]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(string(v.text), 10, 64)
	switch {
	case err != nil:
		r.Fault(v.key, "want a whole number, not %.40s", v.text)
	case n < least:
		r.Fault(v.key, "must be at least %d, not %d", least, n)
	case n > most:
		r.Fault(v.key, "must be at most %d, not %d", most, n)
	default:
		return n
	}
	return otherwise
}

// Number returns a number between least and most, or otherwise if it is not set or
// not one.
func (r *Reader) Number(key string, otherwise, least, most float64) float64 {
	n := r.number(key, otherwise, least, most)
	r.InEffect(key, n)
	return n
}

func (r *Reader) number(key string, otherwise, least, most float64) float64 {
	v, ok := r.values[strings.ToLower(key)]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseFloat(string(v.text), 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		r.Fault(v.key, "want a number, not %.40s", v.text)
	case n < least || n > most:
		r.Fault(v.key, "must be between %v and %v, not %v", least, most, n)
	default:
		return n
	}
	return otherwise
}

// Flag returns true or false, or otherwise if it is not set or neither.
func (r *Reader) Flag(key string, otherwise bool) bool {
	on := r.flag(key, otherwise)
	r.InEffect(key, on)
	return on
}

func (r *Reader) flag(key string, otherwise bool) bool {
	v, ok := r.values[strings.ToLower(key)]
	switch {
	case !ok:
	case string(v.text) == "true":
		return true
	case string(v.text) == "false":
		return false
	default:
		r.Fault(v.key, "want true or false, not %.40s", v.text)
	}
	return otherwise
}

// Text returns a text, or otherwise if it is not set or none.
func (r *Reader) Text(key, otherwise string) string {
	s := r.text(key, otherwise)
	if _, set := r.values[strings.ToLower(key)]; set || s != "" {
		r.InEffect(key, s)
	}
	return s
}

func (r *Reader) text(key, otherwise string) string {
	v, ok := r.values[strings.ToLower(key)]
	if !ok {
		return otherwise
	}
	var s string
	if err := json.Unmarshal(v.text, &s); err != nil {
		r.Fault(v.key, "want a text, not %.40s", v.text)
		return otherwise
	}
	return s
}
