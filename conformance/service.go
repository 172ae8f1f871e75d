package conformance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Limits of a router on what a scorer says of itself.
const (
	maxInfoBytes = 1 << 20
	maxTypes     = 256
	maxHeaders   = 64
	maxBlockSize = 1 << 20
)

func healthChecks() []Check {
	return []Check{
		{
			ID: "health-service", Level: Should, Title: "health is told under the contract's name",
			Fix: "serve grpc.health.v1.Health and set a status for pointsman.scorer.v1.ScorerService", run: checkHealthKnown,
		},
		{
			ID: "health-serving", Level: Must, Title: "its health is SERVING",
			Fix: "wait until it is warm, or see in its log why it says that it cannot serve; no calls come until then", run: checkServing,
		},
		{
			ID: "health-watch", Level: Should, Title: "health can be watched",
			Fix: "implement Watch of grpc.health.v1.Health, which routers use; the gRPC library of your language has it", run: checkWatch,
		},
	}
}

func infoChecks() []Check {
	return []Check{
		{
			ID: "info-form", Level: Must, Title: "GetScorerInfo tells name, version and types",
			Fix: "give a name of [a-z0-9-], a version, and 1 to 256 types", run: checkInfoForm,
		},
		{
			ID: "info-types", Level: Must, Title: "type names are well-formed and there once",
			Fix: "name types and aliases by 1 to 63 of [a-z0-9-], beginning and ending with a letter or digit, each once", run: checkInfoTypes,
		},
		{
			ID: "info-needs", Level: Must, Title: "the types' default needs are well-formed",
			Fix: "ask only for inputs of the contract; prefix blocks with their size, headers with their lower-case names", run: checkInfoNeeds,
		},
		{
			ID: "info-schema", Level: Should, Title: "parameter schemas are JSON objects",
			Fix: "make parameters_schema a JSON Schema, or leave it empty", run: checkInfoSchema,
		},
		{
			ID: "info-size", Level: Must, Title: "what it says of itself is at most 1 MiB",
			Fix: "shorten descriptions and schemas", run: checkInfoSize,
		},
		{
			ID: "info-constant", Level: Must, Title: "what it says of itself does not change",
			Fix: "decide at the start what is served; a change needs new connections", run: checkInfoConstant,
		},
		{
			ID: "capability-implemented", Level: Must, Title: "what is listed as a capability is there",
			Fix: "implement the call, or do not list its capability", run: checkCapabilities,
		},
		{
			ID: "capability-unlisted", Level: Should, Title: "calls that are not listed answer UNIMPLEMENTED",
			Fix: "list the capability, or leave the call out", run: checkUnlisted,
		},
	}
}

func outcomeChecks() []Check {
	with := func(run func(context.Context, *subject) error) func(context.Context, *subject) error {
		return withCapability(scorerv1.Capability_CAPABILITY_OUTCOMES, run)
	}
	return []Check{
		{
			ID: "outcomes-accepted", Level: Must, Title: "outcomes of every kind are accepted",
			Fix: "answer ReportOutcomes; endpoints and requests that are not known are no error", run: with(checkOutcomes),
		},
		{
			ID: "outcomes-gap", Level: Must, Title: "a lost batch of outcomes is no error",
			Fix: "take a gap in batch_sequence as lost events", run: with(checkOutcomeGap),
		},
		{
			ID: "outcomes-unknown", Level: Must, Title: "outcomes that it does not know are ignored",
			Fix: "skip events that are none of those that you know", run: with(checkOutcomeUnknown),
		},
	}
}

func (s *subject) checkHealth(ctx context.Context) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	m, err := s.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	return m.GetStatus(), err
}

func checkHealthKnown(ctx context.Context, s *subject) error {
	if _, err := s.checkHealth(ctx); err != nil {
		return broken("health check: %s", words(err))
	}
	return nil
}

func checkServing(ctx context.Context, s *subject) error {
	got, err := s.checkHealth(ctx)
	if err != nil {
		return notApplicable("no health is told")
	}
	if got != grpc_health_v1.HealthCheckResponse_SERVING {
		return broken("its health is %v", got)
	}
	return nil
}

func checkWatch(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	watch, err := s.health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		return broken("health watch: %s", words(err))
	}
	return nil
}

// goodName says whether a name has the form of the contract.
func goodName(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		!strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}

func checkInfoForm(_ context.Context, s *subject) error {
	switch n := len(s.info.GetTypes()); {
	case !goodName(s.info.GetName()):
		return broken("its name is %q", cut(s.info.GetName()))
	case s.info.GetVersion() == "":
		return broken("it has no version")
	case n == 0 || n > maxTypes:
		return broken("it serves %d types", n)
	}
	return nil
}

func checkInfoTypes(_ context.Context, s *subject) error {
	seen := make(map[string]bool)
	for _, t := range s.info.GetTypes() {
		for _, name := range append([]string{t.GetName()}, t.GetAliases()...) {
			if !goodName(name) {
				return broken("a type is called %q", cut(name))
			}
			if seen[name] {
				return broken("type %q is there twice", name)
			}
			seen[name] = true
		}
	}
	return nil
}

func checkInfoNeeds(_ context.Context, s *subject) error {
	for _, t := range s.info.GetTypes() {
		if err := wrongNeeds(t.GetDefaultNeeds()); err != nil {
			return broken("type %s: %w", cut(t.GetName()), err)
		}
	}
	return nil
}

// wrongNeeds says why a router could not meet the needs.
func wrongNeeds(n *scorerv1.InputNeeds) error {
	for _, in := range n.GetRequiredInputs() {
		if _, known := scorerv1.Input_name[int32(in)]; !known || in == scorerv1.Input_INPUT_UNSPECIFIED {
			return broken("it needs input %v, which there is not", in)
		}
	}
	if h := n.GetSessionHeaderName(); h != strings.ToLower(h) {
		return broken("it has tokens put into header %q", cut(h))
	}
	if slices.Contains(n.GetRequiredInputs(), scorerv1.Input_INPUT_PREFIX_BLOCKS) {
		if size := n.GetPrefixBlockSizeBytes(); size == 0 || size > maxBlockSize {
			return broken("it needs prefix blocks of %d bytes", size)
		}
	}
	if !slices.Contains(n.GetRequiredInputs(), scorerv1.Input_INPUT_REQUEST_HEADERS) {
		return nil
	}
	if names := len(n.GetHeaderNames()); names == 0 || names > maxHeaders {
		return broken("it needs request headers and names %d", names)
	}
	for _, h := range n.GetHeaderNames() {
		if h == "" || h != strings.ToLower(h) {
			return broken("it needs header %q", cut(h))
		}
	}
	return nil
}

func checkInfoSchema(_ context.Context, s *subject) error {
	for _, t := range s.info.GetTypes() {
		var schema map[string]any
		if text := t.GetParametersSchema(); text != "" && json.Unmarshal([]byte(text), &schema) != nil {
			return broken("the schema of type %s is no JSON object", cut(t.GetName()))
		}
	}
	return nil
}

func checkInfoSize(_ context.Context, s *subject) error {
	if n := proto.Size(s.info); n > maxInfoBytes {
		return broken("its answer has %d bytes", n)
	}
	return nil
}

func checkInfoConstant(ctx context.Context, s *subject) error {
	again, err := s.getInfo(ctx)
	if err != nil {
		return broken("asked again: %s", words(err))
	}
	if !proto.Equal(s.info, again) {
		return broken("asked again, it says something else")
	}
	return nil
}

func checkCapabilities(ctx context.Context, s *subject) error {
	if s.has(scorerv1.Capability_CAPABILITY_STREAM) {
		if err := s.openStream(ctx); err != nil {
			return broken("ScoreStream: %s", words(err))
		}
	}
	if s.has(scorerv1.Capability_CAPABILITY_OUTCOMES) {
		if err := s.report(ctx, 1, outcomes()); status.Code(err) == codes.Unimplemented {
			return broken("ReportOutcomes: %s", words(err))
		}
	}
	return nil
}

// openStream opens a stream and ends it again.
func (s *subject) openStream(ctx context.Context) error {
	c, err := s.converse(ctx)
	if err != nil {
		return err
	}
	defer c.hangUp()
	return c.end()
}

func checkUnlisted(ctx context.Context, s *subject) error {
	all := true
	if !s.has(scorerv1.Capability_CAPABILITY_STREAM) {
		all = false
		if err := wantCode("ScoreStream", s.openStream(ctx), codes.Unimplemented); err != nil {
			return err
		}
	}
	if !s.has(scorerv1.Capability_CAPABILITY_OUTCOMES) {
		all = false
		if err := wantCode("ReportOutcomes", s.report(ctx, 1, outcomes()), codes.Unimplemented); err != nil {
			return err
		}
	}
	if all {
		return notApplicable("everything is listed")
	}
	return nil
}

// report sends one batch, as a router that there never was.
func (s *subject) report(ctx context.Context, sequence uint64, all []*scorerv1.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	_, err := s.client.ReportOutcomes(ctx, &scorerv1.ReportOutcomesRequest{RouterId: "conformance", BatchSequence: sequence, Outcomes: all})
	return err
}

// outcomes are the life of one request.
func outcomes() []*scorerv1.Outcome {
	outcome := func() *scorerv1.Outcome {
		return &scorerv1.Outcome{RequestId: "conformance", EndpointId: "conformance-0000", EventTime: timestamppb.Now()}
	}
	picked, first, finished := outcome(), outcome(), outcome()
	picked.Event = &scorerv1.Outcome_Picked{Picked: &scorerv1.Picked{OwnScore: proto.Float32(0.5)}}
	first.Event = &scorerv1.Outcome_FirstToken{FirstToken: &scorerv1.FirstToken{Elapsed: durationpb.New(1e6)}}
	finished.Event = &scorerv1.Outcome_Finished{Finished: &scorerv1.Finished{
		Reason: scorerv1.FinishReason_FINISH_REASON_COMPLETED, Elapsed: durationpb.New(2e6), PromptTokenCount: proto.Uint32(200), OutputTokenCount: proto.Uint32(10),
	}}
	return []*scorerv1.Outcome{picked, first, finished}
}

func checkOutcomes(ctx context.Context, s *subject) error {
	for i, o := range outcomes() {
		if err := s.report(ctx, uint64(i)+1, []*scorerv1.Outcome{o}); err != nil { //nolint:gosec // an index
			return broken("ReportOutcomes of %T: %s", o.GetEvent(), words(err))
		}
	}
	return nil
}

func checkOutcomeGap(ctx context.Context, s *subject) error {
	for _, sequence := range []uint64{10, 20, 22} {
		if err := s.report(ctx, sequence, outcomes()); err != nil {
			return broken("ReportOutcomes of batch %d after a gap: %s", sequence, words(err))
		}
	}
	return nil
}

func checkOutcomeUnknown(ctx context.Context, s *subject) error {
	all := outcomes()
	all[1].Event = nil
	strange(all[1])
	if err := s.report(ctx, 30, all); err != nil {
		return broken("ReportOutcomes with an unknown event: %s", words(err))
	}
	return nil
}
