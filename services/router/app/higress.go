package app

import (
	"errors"
	"reflect"
	"slices"

	"github.com/pointsman/pointsman/internal/kit/redis"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/higress"
)

// ImportHigress turns a configuration of Higress's ai-load-balancer into an
// EndpointPickerConfig: the answer's effective_text. Faults of the text are in the answer.
func ImportHigress(source string, text []byte) *routerv1.CheckConfigResponse {
	imported, err := higress.Import(text)
	if err != nil {
		return &routerv1.CheckConfigResponse{Faults: notices(importFaults(source, err))}
	}
	return &routerv1.CheckConfigResponse{
		EffectiveText: string(imported.Text), Warnings: notices(noticesOf(source, imported.Warnings)), Infos: notices(noticesOf(source, imported.Infos)),
	}
}

// load makes a configuration of a text, which may be one of Higress's ai-load-balancer.
func load(source string, text []byte, scorers epconfig.Scorers) (*epconfig.Loaded, error) {
	deps := epconfig.Deps{Scorers: scorers}
	if !higress.Is(text) {
		return epconfig.Load(source, text, deps)
	}
	imported, err := higress.Import(text)
	if err != nil {
		return nil, importFaults(source, err)
	}
	loaded, err := epconfig.Load(source, imported.Text, deps)
	var faults epconfig.Faults
	switch {
	case errors.As(err, &faults):
		return nil, epconfig.Faults(unplaced(faults))
	case err != nil:
		return nil, err
	}
	loaded.Warnings = append(noticesOf(source, imported.Warnings), unplaced(loaded.Warnings)...)
	loaded.Infos = append(noticesOf(source, imported.Infos), unplaced(loaded.Infos)...)
	return loaded, nil
}

// unplaced takes the places out of notices about a text that nobody has seen.
func unplaced(list []epconfig.Notice) []epconfig.Notice {
	out := make([]epconfig.Notice, len(list))
	for i, n := range list {
		n.Line, n.Column = 0, 0
		out[i] = n
	}
	return out
}

func importFaults(source string, err error) epconfig.Faults {
	var faults higress.Faults
	if !errors.As(err, &faults) {
		return epconfig.Faults{{Source: source, Message: err.Error()}}
	}
	return epconfig.Faults(noticesOf(source, faults))
}

func noticesOf(source string, list []higress.Notice) []epconfig.Notice {
	var out []epconfig.Notice
	for _, n := range list {
		out = append(out, epconfig.Notice{Source: source, Line: n.Line, Column: n.Column, Path: n.Path, Message: n.Message})
	}
	return out
}

// takeRedis takes over where Redis is from a configuration of Higress's. What the router's
// own settings say stands: who sets redis.address, because redis.static is a name that only
// Higress can resolve, still has the user, password and database that were pasted. A faulty
// configuration is reported when it is loaded.
func (o *options) takeRedis() {
	o.ownRedis = o.Redis.Redis
	o.Redis.Redis = o.redisOf(o.origin.text)
}

// redisOf returns where Redis is by a configuration and the router's own settings.
func (o *options) redisOf(text []byte) redis.Config {
	own := o.ownRedis
	if !higress.Is(text) {
		return own
	}
	imported, err := higress.Import(text)
	if err != nil || imported.Redis == nil {
		return own
	}
	if !own.Enabled() {
		own.Address = imported.Redis.Address
	}
	if own.Username == "" && own.Password == "" {
		own.Username, own.Password = imported.Redis.Username, imported.Redis.Password
	}
	if own.Database == 0 && !own.Cluster() { // a Redis Cluster has only one
		own.Database = imported.Redis.Database
	}
	if own.Timeout == redis.DefaultConfig().Timeout {
		own.Timeout = imported.Redis.Timeout
	}
	return own
}

// aboutRedis adds to what is told of a configuration that it names another Redis, and takes
// out that the name it has for Redis is of no use, if the router's own settings say where
// Redis is.
func (o *options) aboutRedis(source string, text []byte, told []epconfig.Notice) []epconfig.Notice {
	if o.ownRedis.Enabled() && higress.Is(text) {
		told = slices.DeleteFunc(told, func(n epconfig.Notice) bool { return n.Path == higress.AddressField })
	}
	if other := o.otherRedis(text); other != "" {
		told = append(told, epconfig.Notice{Source: source, Path: "lb_config", Message: other})
	}
	return told
}

// otherRedis says that a configuration wants another Redis than the router connected to
// when it started; "" if it does not.
func (o *options) otherRedis(text []byte) string {
	if then := o.Redis.Redis; !higress.Is(text) || reflect.DeepEqual(o.redisOf(text), then) {
		return ""
	}
	return "where Redis is was changed, which takes effect when the router is started again"
}
