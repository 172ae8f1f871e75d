package conf

import (
	"errors"
	"fmt"
	"strings"
)

// fromSet is the File of faults in overrides.
const fromSet = "--set"

// Fault is one thing wrong with a configuration. [Load] and [Parse] return faults joined; errors.As finds the first.
type Fault struct {
	File   string // as given, "--set" for an override, "" when only the defaults are to blame
	Line   int    // from 1; 0 when it has no line
	Column int    // from 1; 0 when it has no column
	Key    string // dotted path, lists as key[2]; may be empty
	Text   string // what is wrong and what to do
}

func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
	}
	switch {
	case f.File == fromSet:
		b.WriteString(" ")
	case f.File != "":
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// maxFaults bounds what is shown: nobody repairs more at once, and the wrong file may have a fault on every line.
const maxFaults = 30

// join makes one error of faults, nil of none.
func join(faults []*Fault) error {
	errs := make([]error, 0, len(faults))
	for i, f := range faults {
		if i == maxFaults {
			errs = append(errs, fmt.Errorf("and %d more faults", len(faults)-i))
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// Prefix puts "key." before every fault in err, so that a Validate can pass on what the Validate of one of its sections
// returned: Prefix("listen.grpc", c.Listen.GRPC.Validate()). nil stays nil.
func Prefix(key string, err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, Prefix(key, e))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("%s.%w", key, err)
}
