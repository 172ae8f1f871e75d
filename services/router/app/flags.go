package app

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/internal/kit/watch"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
)

// options is what the command line says.
type options struct {
	Config
	origin   origin                 // of the EndpointPickerConfig
	notes    []flagNote             // of flags that are taken and do nothing
	within   []scorersvc.Embeddable // scorers that can be asked in this process
	ownRedis redis.Config           // by the settings alone: a configuration of Higress's adds to it
}

// parse reads flags and settings. The flags of the Inference Gateway's endpoint
// picker keep their names; as with any Go flag, one dash is as good as two.
func parse(args []string, stdout io.Writer) (*options, error) {
	fs := flag.NewFlagSet("router", flag.ContinueOnError)
	settings := conf.Flags(fs)
	pool := fs.String("pool", "", "`name` of the pool of endpoints; the same as --set pool=NAME")
	poolName := fs.String("poolName", "", "`name` of the InferencePool; names the pool, as --pool does")
	namespace := fs.String("poolNamespace", "", "`namespace` of the InferencePool; the pool is then named NAMESPACE/NAME")
	file := fs.String("configFile", "", "`file` with the EndpointPickerConfig, or with a configuration of Higress's ai-load-balancer; changes are taken into use, see --configReload")
	text := fs.String("configText", "", "EndpointPickerConfig as `text`")
	reload := fs.Bool("configReload", true, "take a changed --configFile into use while running, also on SIGHUP; false: only at the start")
	gateway := gatewayFlags(fs)
	for newer, older := range map[string]string{"pool-name": "poolName", "pool-namespace": "poolNamespace", "config-file": "configFile", "config-text": "configText"} {
		fs.Var(fs.Lookup(older).Value, newer, "the same as --"+older+" (`value`); spelt as newer endpoint pickers do")
	}
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return nil, err
	}
	o := &options{Config: DefaultConfig(), notes: gateway.notes}
	if err := conf.Load(settings.File, append(settings.Sets, gateway.sets...), &o.Config); err != nil {
		if text, readErr := os.ReadFile(settings.File); readErr == nil && bytes.Contains(text, []byte("EndpointPickerConfig")) {
			return nil, run.UsageError{Err: fmt.Errorf("--config %s is an EndpointPickerConfig: give it by --configFile", settings.File)}
		}
		return nil, err
	}
	if err := o.namePool(*pool, *poolName, *namespace); err != nil {
		return nil, run.UsageError{Err: err}
	}
	if err := o.readText(*file, *text, *reload); err != nil {
		return nil, err
	}
	o.takeRedis()
	return o, nil
}

// namePool settles which of the ways to name the pool was used.
func (o *options) namePool(pool, poolName, namespace string) error {
	switch {
	case pool != "" && poolName != "":
		return errors.New("--pool and --poolName are both given: give one")
	case namespace != "" && poolName == "":
		return errors.New("--poolNamespace is given without --poolName")
	case namespace != "":
		o.Pool = namespace + "/" + poolName
	case poolName != "":
		o.Pool = poolName
	case pool != "":
		o.Pool = pool
	}
	return nil
}

// readText reads the EndpointPickerConfig; without one the built-in default stands.
func (o *options) readText(file, text string, reload bool) error {
	switch {
	case file != "" && text != "":
		return run.UsageError{Err: errors.New("--configFile and --configText are both given: give one")}
	case text != "":
		o.origin = origin{source: "configText", text: []byte(text)}
	case file != "":
		raw, err := watch.DefaultConfig(file).Read()
		if err != nil {
			return fmt.Errorf("--configFile: %w; check the path and who may read it", err)
		}
		o.origin = origin{source: file, text: raw, file: file, reload: reload}
	default:
		o.origin = origin{source: epconfig.DefaultName, text: []byte(epconfig.DefaultText)}
	}
	return nil
}
