package scorersvc

import (
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// load reads the command line and the configuration file it names into settings,
// which hold the defaults.
func load(name string, args []string, stdout io.Writer, settings Settings) error {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	sources := conf.Flags(fs)
	pool := fs.String("pool", "", "`NAME` of the pool; goes before the key pool")
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return err
	}
	if *pool != "" {
		sources.Sets = append(sources.Sets, fmt.Sprintf("pool=%q", *pool))
	}
	return conf.Load(sources.File, sources.Sets, settings)
}
