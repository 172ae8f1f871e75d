package epconfig

import "github.com/pointsman/pointsman/services/router/internal/profile"

func handlerTypes() []*Type {
	return []*Type{{
		Name: profile.SingleType, Role: RoleHandler,
		Summary: "Runs the only scheduling profile; its pick is the request's endpoint.",
		New:     func(name string, _ *Params) (any, error) { return profile.NewSingle(name), nil },
	}}
}
