package conformance

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// A name and a key that nobody has.
const (
	noType = "no-such-type-conformance"
	noKey  = "noSuchParameterConformance"
)

func parameterChecks() []Check {
	return []Check{
		{
			ID: "parameters-accepted", Level: Must, Title: "the parameters are accepted",
			Fix: "give parameters that the type takes with --parameters, or let ValidateParameters accept none", run: func(_ context.Context, s *subject) error { return s.refuse },
		},
		{
			ID: "parameters-needs", Level: Must, Title: "what an instance needs is well-formed",
			Fix: "ask only for inputs of the contract; prefix blocks with their size, headers with their lower-case names", run: checkInstanceNeeds,
		},
		{
			ID: "parameters-object", Level: Must, Title: "parameters that are no JSON object are refused",
			Fix: "answer ValidateParameters with a fault for anything but a JSON object or nothing", run: checkNoObject,
		},
		{
			ID: "parameters-unknown-key", Level: Should, Title: "keys that there are not are refused",
			Fix: "answer with a fault for an unknown key, so that a misspelt one is found when a configuration is loaded", run: checkUnknownKey,
		},
		{
			ID: "parameters-fault-words", Level: Must, Title: "faults say what is wrong",
			Fix: "give every fault a message of one sentence", run: checkFaultWords,
		},
		{
			ID: "parameters-unknown-type", Level: Must, Title: "ValidateParameters of an unknown type is INVALID_ARGUMENT",
			Fix: "answer INVALID_ARGUMENT for types that are not served", run: checkValidateUnknownType,
		},
		{
			ID: "parameters-effective", Level: Must, Title: "effective parameters come to the same instance",
			Fix: "give back a JSON object that ValidateParameters accepts and answers alike, or nothing", run: checkEffective,
		},
		{
			ID: "parameters-score", Level: Must, Title: "Score refuses parameters that ValidateParameters refuses",
			Fix: "answer Score with INVALID_ARGUMENT for parameters that you would refuse", run: checkScoreRefuses,
		},
	}
}

func checkInstanceNeeds(_ context.Context, s *subject) error {
	if s.refuse != nil {
		return notApplicable("there is no instance")
	}
	return wrongNeeds(s.needs)
}

// noObjects are parameters that everybody must refuse.
func noObjects() []string { return []string{`[1]`, `"x"`, `{"a":`} }

// refused says whether parameters are: by faults, or as an error of the request.
func (s *subject) refused(ctx context.Context, parameters string) (refused bool, faults []*scorerv1.ParameterFault, err error) {
	m, err := s.validate(ctx, s.typ.GetName(), []byte(parameters))
	if err != nil {
		if e := wantCode("ValidateParameters", err, codes.InvalidArgument); e != nil {
			return false, nil, e
		}
		return true, nil, nil
	}
	return len(m.GetFaults()) > 0, m.GetFaults(), nil
}

func checkNoObject(ctx context.Context, s *subject) error {
	for _, text := range noObjects() {
		refused, _, err := s.refused(ctx, text)
		if err != nil {
			return err
		}
		if !refused {
			return broken("parameters %s are accepted", text)
		}
	}
	return nil
}

// misspelt are good parameters with a key that nobody has.
func (s *subject) misspelt() string {
	all := make(map[string]any)
	if json.Unmarshal(s.options.Parameters, &all) != nil {
		clear(all)
	}
	all[noKey] = 1
	text, err := json.Marshal(all)
	if err != nil { // what came out of JSON goes into it
		return `{"` + noKey + `":1}`
	}
	return string(text)
}

func checkUnknownKey(ctx context.Context, s *subject) error {
	refused, _, err := s.refused(ctx, s.misspelt())
	if err == nil && !refused {
		err = broken("a key %s is accepted", noKey)
	}
	return err
}

func checkFaultWords(ctx context.Context, s *subject) error {
	for _, text := range append(noObjects(), s.misspelt()) {
		_, faults, err := s.refused(ctx, text)
		if err != nil {
			return err
		}
		for _, f := range faults {
			if f.GetMessage() == "" {
				return broken("the fault of parameters %s has no message", text)
			}
		}
	}
	return nil
}

func checkValidateUnknownType(ctx context.Context, s *subject) error {
	_, err := s.validate(ctx, noType, nil)
	return wantCode("ValidateParameters of an unknown type", err, codes.InvalidArgument)
}

func checkEffective(ctx context.Context, s *subject) error {
	if s.refuse != nil {
		return notApplicable("there is no instance")
	}
	first, err := s.validate(ctx, s.typ.GetName(), s.options.Parameters)
	if err != nil {
		return broken("ValidateParameters: %s", words(err))
	}
	effective := first.GetEffectiveParametersJson()
	if len(effective) == 0 {
		return notApplicable("it does not tell")
	}
	var object map[string]any
	if json.Unmarshal(effective, &object) != nil {
		return broken("effective_parameters_json is no JSON object: %s", cut(string(effective)))
	}
	second, err := s.validate(ctx, s.typ.GetName(), effective)
	switch {
	case err != nil:
		return broken("ValidateParameters of the effective parameters: %s", words(err))
	case len(second.GetFaults()) > 0:
		return broken("it refuses its own effective parameters: %s", faultWords(second.GetFaults()))
	case !proto.Equal(first.GetNeeds(), second.GetNeeds()):
		return broken("with its effective parameters it needs something else")
	}
	return nil
}

func checkScoreRefuses(ctx context.Context, s *subject) error {
	for _, text := range append(noObjects(), s.misspelt()) {
		refused, _, err := s.refused(ctx, text)
		if err != nil {
			return err
		}
		if !refused {
			continue
		}
		req := s.request(2)
		req.ParametersJson = []byte(text)
		_, err = s.score(ctx, req)
		if err := wantCode("Score with parameters "+text, err, codes.InvalidArgument); err != nil {
			return err
		}
	}
	return nil
}
