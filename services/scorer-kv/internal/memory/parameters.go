package memory

import (
	"encoding/json"
	"maps"
	"slices"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// none refuses any parameter of a type that takes none.
func none(scorerType string, parametersJSON []byte) []*scorerv1.ParameterFault {
	var keys map[string]json.RawMessage
	if len(parametersJSON) > 0 {
		if err := json.Unmarshal(parametersJSON, &keys); err != nil {
			return []*scorerv1.ParameterFault{{Message: "a JSON object is wanted"}}
		}
	}
	var faults []*scorerv1.ParameterFault
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		faults = append(faults, &scorerv1.ParameterFault{Key: k, Message: "unknown key; " + scorerType + " takes no parameters"})
	}
	return faults
}
