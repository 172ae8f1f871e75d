package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// load reads the command line and the configuration file it names.
func load(args []string, stdout io.Writer) (Config, error) {
	fs := flag.NewFlagSet(Name, flag.ContinueOnError)
	sources := conf.Flags(fs)
	pool := fs.String("pool", "", "`name` of the pool; the same as --set pool=NAME")
	poolName := fs.String("poolName", "", "`name` of the InferencePool whose pods are the endpoints; names the pool as well")
	namespace := fs.String("poolNamespace", "", "`namespace` of the InferencePool; the pool is then named NAMESPACE/NAME")
	all := fs.Bool("watchAllPools", false, "collect for every InferencePool of the cluster, each named NAMESPACE/NAME")
	kubeconfig := fs.String("kubeconfig", "", "`file` that says how the API server is reached; default: as pods do")
	for newer, older := range map[string]string{"pool-name": "poolName", "pool-namespace": "poolNamespace"} {
		fs.Var(fs.Lookup(older).Value, newer, "the same as --"+older+" (`value`); spelt as newer endpoint pickers do")
	}
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return Config{}, err
	}
	cfg := DefaultConfig()
	if *namespace != "" && *poolName == "" {
		return cfg, run.UsageError{Err: errors.New("--poolNamespace is given without --poolName")}
	}
	name := *pool
	if name == "" && *poolName != "" {
		// As routers with the same flags name it.
		if name = *poolName; *namespace != "" {
			name = *namespace + "/" + *poolName
		}
	}
	for _, f := range []struct{ key, value string }{
		{"pool", name}, {"kubernetes.poolName", *poolName}, {"kubernetes.poolNamespace", *namespace}, {"kubernetes.kubeconfig", *kubeconfig},
	} {
		if f.value != "" {
			sources.Sets = append(sources.Sets, fmt.Sprintf("%s=%q", f.key, f.value))
		}
	}
	if *all {
		sources.Sets = append(sources.Sets, "kubernetes.watchAllPools=true")
	}
	return cfg, conf.Load(sources.File, sources.Sets, &cfg)
}
