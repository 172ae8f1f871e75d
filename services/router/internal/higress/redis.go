package higress

import (
	"net"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
)

// Defaults of the plug-in, in its units.
const (
	defaultTimeout = 3000 // ms
	defaultKeyTTL  = 1800 // s
)

// AddressField is the path of the field that names Redis's host. A warning about it says that
// the name is of no use outside of Higress.
const AddressField = "lb_config.serviceFQDN"

// redis reads where Redis is.
func (f *fields) redis() *redis.Config {
	c := redis.DefaultConfig()
	host := f.text("serviceFQDN")
	port := f.integer("servicePort", "", 0, 0)
	c.Username, c.Password = f.text("username"), conf.Secret(f.text("password"))
	c.Timeout = conf.Duration(time.Duration(f.integer("timeout", "milliseconds", 0, defaultTimeout)) * time.Millisecond)
	c.Database = f.integer("database", "", 0, 0)
	switch {
	case host == "" && f.at["serviceFQDN"] != nil && f.at["serviceFQDN"].Kind != yaml.ScalarNode:
		return nil // a fault already
	case host == "":
		f.fault(f.node, f.name("serviceFQDN"), "is missing; it is the host of Redis")
		return nil
	case port == 0 || port > 65535:
		at := f.at["servicePort"]
		if at == nil {
			at = f.node
		}
		f.fault(at, f.name("servicePort"), "must be the port of Redis, 1 to 65535")
		return nil
	}
	c.Address = net.JoinHostPort(host, strconv.Itoa(port))
	for _, kind := range []string{".static", ".dns", ".nacos", ".eureka", ".consul", ".zookeeper"} {
		if strings.HasSuffix(host, kind) {
			f.warn(f.at["serviceFQDN"], f.name("serviceFQDN"), "%s is a name of Higress's service registry, which nobody else can resolve; set redis.address to where Redis is", host)
			break
		}
	}
	return &c
}
