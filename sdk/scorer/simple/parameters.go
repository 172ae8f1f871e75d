package simple

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Fault is one thing wrong with parameters.
type Fault struct {
	// Key is at fault, dotted if nested; empty for all of them.
	Key string
	// Message says what is wrong and what would be right.
	Message string
}

// Error implements error.
func (f Fault) Error() string {
	if f.Key == "" {
		return f.Message
	}
	return f.Key + ": " + f.Message
}

// Decode reads parameters into a struct that holds the defaults. A key that the struct
// does not have is a [Fault], and so is a value of the wrong type.
func Decode(parametersJSON []byte, into any) error {
	if len(bytes.TrimSpace(parametersJSON)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(parametersJSON))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return Fault{wrong.Field, fmt.Sprintf("a JSON %s stands where %s is wanted", wrong.Value, wrong.Type)}
	}
	// The standard library has no error type for this one.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if key, unquoted := strconv.Unquote(quoted); unquoted == nil {
			return Fault{key, "there is no such parameter"}
		}
	}
	return Fault{Message: "this is not the JSON object that is wanted: " + err.Error()}
}

// faults are all that an error of Type.New tells.
func faults(err error) []*scorerv1.ParameterFault {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // only the outermost is a list
		var all []*scorerv1.ParameterFault
		for _, e := range joined.Unwrap() {
			all = append(all, faults(e)...)
		}
		return all
	}
	var f Fault
	if errors.As(err, &f) {
		return []*scorerv1.ParameterFault{{Key: f.Key, Message: f.Message}}
	}
	return []*scorerv1.ParameterFault{{Message: err.Error()}}
}
