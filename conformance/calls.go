package conformance

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const domain = "scorer.pointsman.dev"

func (s *subject) getInfo(ctx context.Context) (*scorerv1.GetScorerInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.client.GetScorerInfo(ctx, &scorerv1.GetScorerInfoRequest{}, grpc.WaitForReady(true)) // it may be about to start
}

func (s *subject) validate(ctx context.Context, typ string, parameters []byte) (*scorerv1.ValidateParametersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.client.ValidateParameters(ctx, &scorerv1.ValidateParametersRequest{ScorerType: typ, ParametersJson: parameters})
}

func (s *subject) score(ctx context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.client.Score(ctx, req)
}

// scored asks for scores that must be good.
func (s *subject) scored(ctx context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	resp, err := s.score(ctx, req)
	if err != nil {
		return nil, broken("Score: %s", words(err))
	}
	if err := wrong(resp, req, ""); err != nil {
		return nil, err
	}
	return resp, nil
}

// reason is the ErrorInfo's, empty if there is none of the contract's domain.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*errdetails.ErrorInfo); ok && e.GetDomain() == domain {
			return e.GetReason()
		}
	}
	return ""
}

// wantCode says how an error differs from what it should be.
func wantCode(what string, err error, want ...codes.Code) error {
	got := status.Code(err)
	if err == nil {
		return broken("%s: it answered, want %v", what, want[0])
	}
	if !slices.Contains(want, got) {
		return broken("%s: %s, want %v", what, words(err), want[0])
	}
	return nil
}

// attempts is how often two answers are compared that may differ because what a
// scorer knows has changed in between.
const attempts = 3

// steadily runs f until it is content, a few times at most.
func steadily(ctx context.Context, f func() error) error {
	var err error
	for range attempts {
		if err = f(); err == nil || ctx.Err() != nil || errors.As(err, new(silence)) {
			break
		}
	}
	return err
}
