package app

import (
	"context"
	"errors"
	"slices"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/remote"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// CheckConfig loads an EndpointPickerConfig as a router would, without one. Scorer
// types and their parameters are checked by services, which need not run: only their
// GetScorerInfo and ValidateParameters are called. Types in unchecked are taken to be
// served by somebody, with any parameters. An error is one of services; faults of the
// text are in the answer.
func CheckConfig(ctx context.Context, source string, text []byte, services []scorerv1.ScorerServiceServer, unchecked []string) (*routerv1.CheckConfigResponse, error) {
	scorers, err := remote.NewOffline(ctx, services, unchecked)
	if err != nil {
		return nil, err
	}
	return checked(source, text, scorers), nil
}

// checkConfig is CheckConfig with the scorers that this router asks.
func (r *router) checkConfig(source string, text []byte) *routerv1.CheckConfigResponse {
	r.scorers.Loading()
	return checked(source, text, r.scorers)
}

func checked(source string, text []byte, scorers epconfig.Scorers) *routerv1.CheckConfigResponse {
	loaded, err := load(source, text, scorers)
	if err != nil {
		var faults epconfig.Faults
		if !errors.As(err, &faults) {
			faults = epconfig.Faults{{Source: source, Message: err.Error()}}
		}
		return &routerv1.CheckConfigResponse{Faults: notices(faults)}
	}
	return &routerv1.CheckConfigResponse{
		Warnings: notices(loaded.Warnings), Infos: notices(loaded.Infos), EffectiveText: string(loaded.Effective), Plugins: plugins(loaded),
	}
}

func notices(list []epconfig.Notice) []*routerv1.ConfigNotice {
	var out []*routerv1.ConfigNotice
	for _, n := range list {
		out = append(out, &routerv1.ConfigNotice{
			Source: n.Source, Line: uint32(max(n.Line, 0)), Column: uint32(max(n.Column, 0)), Path: n.Path, Message: n.Message, //nolint:gosec // a text has less lines
		})
	}
	return out
}

func plugins(l *epconfig.Loaded) []*routerv1.ConfigPlugin {
	uses := map[string][]*routerv1.ProfileUse{}
	for _, p := range l.Config.Profiles {
		for _, f := range p.Filters {
			if slices.ContainsFunc(p.Scorers, func(s route.Scorer) bool { return s.Plugin == f.Name() }) {
				continue // one plug-in, named once: it scores, and filters besides
			}
			uses[f.Name()] = append(uses[f.Name()], &routerv1.ProfileUse{Profile: p.Name})
		}
		for _, s := range p.Scorers {
			uses[s.Plugin] = append(uses[s.Plugin], &routerv1.ProfileUse{Profile: p.Name, Weight: &s.Weight})
		}
		uses[p.Picker.Name()] = append(uses[p.Picker.Name()], &routerv1.ProfileUse{Profile: p.Name})
	}
	var out []*routerv1.ConfigPlugin
	for _, p := range l.Plugins {
		out = append(out, &routerv1.ConfigPlugin{
			Name: p.Name, Type: p.Type, Role: string(p.Role), Service: p.Service, ParametersJson: string(p.Parameters), FilledIn: p.FilledIn, Profiles: uses[p.Name],
		})
	}
	return out
}
