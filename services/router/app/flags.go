package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
)

// options is what the command line says.
type options struct {
	Config
	source string // of the EndpointPickerConfig
	text   []byte
}

// parse reads flags and settings. The flags of the Inference Gateway's endpoint
// picker keep their names; as with any Go flag, one dash is as good as two.
func parse(args []string, stdout io.Writer) (*options, error) {
	fs := flag.NewFlagSet("router", flag.ContinueOnError)
	settings := conf.Flags(fs)
	pool := fs.String("pool", "", "`name` of the pool of endpoints; the same as --set pool=NAME")
	poolName := fs.String("poolName", "", "`name` of the InferencePool; names the pool, as --pool does")
	namespace := fs.String("poolNamespace", "", "`namespace` of the InferencePool; the pool is then named NAMESPACE/NAME")
	file := fs.String("configFile", "", "`file` with the EndpointPickerConfig")
	text := fs.String("configText", "", "EndpointPickerConfig as `text`")
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return nil, err
	}
	o := &options{Config: DefaultConfig()}
	if err := conf.Load(settings.File, settings.Sets, &o.Config); err != nil {
		return nil, err
	}
	if err := o.namePool(*pool, *poolName, *namespace); err != nil {
		return nil, run.UsageError{Err: err}
	}
	if err := o.readText(*file, *text); err != nil {
		return nil, err
	}
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
func (o *options) readText(file, text string) error {
	switch {
	case file != "" && text != "":
		return run.UsageError{Err: errors.New("--configFile and --configText are both given: give one")}
	case text != "":
		o.source, o.text = "configText", []byte(text)
	case file != "":
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--configFile: %w; check the path and who may read it", err)
		}
		o.source, o.text = file, raw
	default:
		o.source, o.text = epconfig.DefaultName, []byte(epconfig.DefaultText)
	}
	return nil
}
