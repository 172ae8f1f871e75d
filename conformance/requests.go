package conformance

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func requestChecks() []Check {
	return []Check{
		{
			ID: "request-largest", Level: Must, Title: "the largest request is answered",
			Fix: "take messages of 4 MiB, 4096 candidates and 8192 hashes", run: checkLargest,
		},
		{
			ID: "request-unknown-fields", Level: Must, Title: "fields of a newer contract are ignored",
			Fix: "do not refuse messages for fields that you do not know", run: checkUnknownFields,
		},
		{
			ID: "request-unknown-type", Level: Must, Title: "Score of an unknown type is INVALID_ARGUMENT",
			Fix: "look at scorer_type, and answer INVALID_ARGUMENT for types that are not served", run: checkScoreUnknownType,
		},
		{
			ID: "request-invalid", Level: Should, Title: "requests that break the contract are INVALID_ARGUMENT",
			Fix: "refuse requests without request_id or candidates, or beyond the limits", run: checkInvalid,
		},
		{
			ID: "request-error-info", Level: Should, Title: "errors carry the contract's reason",
			Fix: "add a google.rpc.ErrorInfo with domain " + domain + " and the reason to the status", run: checkErrorInfo,
		},
	}
}

func tableChecks() []Check {
	return []Check{
		{
			ID: "table-not-held", Level: Must, Title: "a table that is not held is TABLE_NOT_HELD",
			Fix: "answer FAILED_PRECONDITION with an ErrorInfo of domain " + domain + " and reason TABLE_NOT_HELD, so that the router lists the candidates",
			run: withCapability(scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, checkNotHeld),
		},
		{
			ID: "table-unlisted", Level: Must, Title: "references are not answered unless they are listed",
			Fix: "answer UNIMPLEMENTED to table references, or list CAPABILITY_TABLE_REFERENCE", run: checkReferencesUnlisted,
		},
	}
}

func checkLargest(ctx context.Context, s *subject) error {
	req := s.request(maxCandidates)
	for i, c := range req.GetListed().GetCandidates() {
		c.EndpointId = fmt.Sprintf("%04d-%s", i, strings.Repeat("x", maxIDBytes-5))
	}
	in := req.GetRequest()
	in.RequestId = strings.Repeat("r", maxIDBytes)
	if in.Prefix != nil {
		in.Prefix = prefix(s.needs, maxHashes)
	}
	if in.PromptText != "" {
		in.PromptText = strings.Repeat("x", 1<<20)
	}
	_, err := s.scored(ctx, req)
	return err
}

// strange adds a field that no version of the contract has.
func strange(m proto.Message) {
	raw := protowire.AppendTag(nil, 31999, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, "of a later version"))
}

func checkUnknownFields(ctx context.Context, s *subject) error {
	return steadily(ctx, func() error {
		req := s.request(5)
		first, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		strange(req)
		strange(req.GetRequest())
		for _, c := range req.GetListed().GetCandidates() {
			strange(c)
		}
		second, err := s.opinions(ctx, req)
		if err != nil {
			return broken("with unknown fields: %w", err)
		}
		return differ(first, second, same)
	})
}

func (s *subject) unknownType(ctx context.Context) error {
	req := s.request(2)
	req.ScorerType = noType
	_, err := s.score(ctx, req)
	return err
}

func checkScoreUnknownType(ctx context.Context, s *subject) error {
	return wantCode("Score of an unknown type", s.unknownType(ctx), codes.InvalidArgument)
}

func checkErrorInfo(ctx context.Context, s *subject) error {
	err := s.unknownType(ctx)
	if err == nil {
		return notApplicable("there is no error")
	}
	if got := reason(err); got != "INVALID_REQUEST" {
		return broken("INVALID_ARGUMENT has reason %q, want INVALID_REQUEST", got)
	}
	return nil
}

func checkInvalid(ctx context.Context, s *subject) error {
	for _, c := range []struct {
		name  string
		spoil func(*scorerv1.ScoreRequest)
	}{
		{"without a request", func(r *scorerv1.ScoreRequest) { r.Request = nil }},
		{"without a request id", func(r *scorerv1.ScoreRequest) { r.Request.RequestId = "" }},
		{"with a request id of 129 bytes", func(r *scorerv1.ScoreRequest) { r.Request.RequestId = strings.Repeat("x", maxIDBytes+1) }},
		{"without candidates", func(r *scorerv1.ScoreRequest) { r.Candidates = nil }},
		{"with an empty list", func(r *scorerv1.ScoreRequest) { r.GetListed().Candidates = nil }},
		{"with a candidate that has no id", func(r *scorerv1.ScoreRequest) { r.GetListed().Candidates[1].EndpointId = "" }},
		{"with 4097 candidates", func(r *scorerv1.ScoreRequest) { r.Candidates = s.request(maxCandidates + 1).Candidates }},
	} {
		req := s.request(2)
		c.spoil(req)
		_, err := s.score(ctx, req)
		if err := wantCode("Score "+c.name, err, codes.InvalidArgument); err != nil {
			return err
		}
	}
	return nil
}

// byReference asks about a table that nobody has.
func (s *subject) byReference(ctx context.Context) error {
	req := s.request(2)
	req.Candidates = &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 0xfeedfacecafebeef}}
	_, err := s.score(ctx, req)
	return err
}

func checkNotHeld(ctx context.Context, s *subject) error {
	err := s.byReference(ctx)
	if err := wantCode("Score of an unknown table", err, codes.FailedPrecondition); err != nil {
		return err
	}
	if got := reason(err); got != "TABLE_NOT_HELD" {
		return broken("FAILED_PRECONDITION has reason %q, want TABLE_NOT_HELD", got)
	}
	return nil
}

func checkReferencesUnlisted(ctx context.Context, s *subject) error {
	if s.has(scorerv1.Capability_CAPABILITY_TABLE_REFERENCE) {
		return notApplicable("CAPABILITY_TABLE_REFERENCE is listed")
	}
	return wantCode("Score by table reference", s.byReference(ctx), codes.Unimplemented, codes.FailedPrecondition, codes.InvalidArgument)
}
