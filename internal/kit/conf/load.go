package conf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// maxBytes bounds a configuration file: whatever is larger is some other file.
const maxBytes = 4 << 20

// Load reads file (may be empty: nothing is read) into into, a pointer to a struct that holds the defaults, applies sets
// in order, each "dotted.key=value" with the value in YAML, and calls into's Validate if it has one.
// It returns all faults, joined; into is of no use then.
func Load(file string, sets []string, into any) error {
	if file == "" {
		return load("", nil, sets, into)
	}
	text, err := read(file)
	if err != nil {
		return err
	}
	return load(file, text, sets, into)
}

// Parse is Load for a text at hand. name stands for it in faults.
func Parse(name string, text []byte, into any) error {
	return load(name, text, nil, into)
}

func load(name string, text []byte, sets []string, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("conf: want a pointer to a configuration, got %T", into)
	}
	d := newDecoder(name)
	if doc := d.document(text); doc != nil {
		d.value(doc, v.Elem(), "")
	}
	d.file = fromSet
	for _, s := range sets {
		d.override(s, v.Elem())
	}
	if validator, ok := into.(interface{ Validate() error }); ok {
		d.validate(name, validator.Validate())
	}
	return join(d.faults)
}

// read returns the text of file, or an error that says what to do.
func read(file string) ([]byte, error) {
	const hint = "check the path given with --config"
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, maxBytes+1)); err == nil {
			if len(text) > maxBytes {
				return nil, fmt.Errorf("%s: larger than %d MiB, which no configuration is; %s", file, maxBytes>>20, hint)
			}
			return text, nil
		}
	}
	if info, statErr := os.Stat(file); statErr == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory; name a file in it", file)
	}
	cause := err
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		cause = pathErr.Err
	}
	if errors.Is(err, fs.ErrPermission) {
		hint := "make it readable for the user this process runs as"
		return nil, fmt.Errorf("%s: %w; %s", file, cause, hint)
	}
	return nil, fmt.Errorf("%s: %w; %s", file, cause, hint)
}

// validate adds what Validate has found, with the place of the key that each fault begins with.
func (d *decoder) validate(name string, err error) {
	if err == nil {
		return
	}
	known := len(d.faults)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, text, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(key, " \t\"") {
			d.faults = append(d.faults, &Fault{File: name, Text: line})
			continue
		}
		if blamed(d.faults[:known], key) {
			continue // a consequence: the value never arrived
		}
		f := &Fault{File: name, Key: key, Text: text}
		if p, ok := d.placeOf(key); ok {
			f.File, f.Line, f.Column = p.file, p.line, p.column
		}
		d.faults = append(d.faults, f)
	}
}

// blamed tells whether a fault is about key or a section that holds it.
func blamed(faults []*Fault, key string) bool {
	for _, f := range faults {
		if rest, ok := strings.CutPrefix(key, f.Key); ok && f.Key != "" && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// placeOf returns where key, or the nearest section around it, was written.
func (d *decoder) placeOf(key string) (place, bool) {
	for key != "" {
		if p, ok := d.places[key]; ok {
			return p, true
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return place{}, false
}
