package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// router is the flags of the commands that ask a router.
type router struct {
	address, output string
	client          rpc.ClientConfig
}

func routerFlags(fs *flag.FlagSet) *router {
	r := &router{client: rpc.DefaultClientConfig()}
	fs.StringVar(&r.address, "router", "127.0.0.1:9004", "gRPC `address` of the router")
	fs.StringVar(&r.output, "o", "text", "output `format`: text or json")
	fs.StringVar(&r.client.TLS.CAFile, "ca", "", "`file` with the certificates of the router's CA; turns TLS on")
	fs.StringVar(&r.client.TLS.CertFile, "cert", "", "client certificate `file`, for mutual TLS")
	fs.StringVar(&r.client.TLS.KeyFile, "key", "", "client key `file`, for mutual TLS")
	fs.StringVar(&r.client.TLS.ServerName, "server-name", "", "`name` that the router's certificate must have, if not the address")
	return r
}

// format refuses an output format that there is not.
func (r *router) format() error {
	if r.output != "text" && r.output != "json" {
		return run.UsageError{Err: fmt.Errorf("-o %s: want text or json", r.output)}
	}
	return nil
}

// dial opens the connection; it is made when first used.
func (r *router) dial() (routerv1.RouterServiceClient, io.Closer, error) {
	if err := r.format(); err != nil {
		return nil, nil, err
	}
	conn, err := rpc.Dial(r.address, r.client)
	if err != nil {
		return nil, nil, err
	}
	return routerv1.NewRouterServiceClient(conn), conn, nil
}

// asked turns a call's error into one line that names the router.
func (r *router) asked(err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("router %s: %s (is it running? --router ADDRESS names another)", r.address, s.Message())
	}
	return fmt.Errorf("router %s: %w", r.address, err)
}

// emit prints m as one JSON object, if JSON was asked for.
func (r *router) emit(stdout io.Writer, m proto.Message, multiline bool) (done bool, err error) {
	if r.output != "json" {
		return false, nil
	}
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return true, err
	}
	// protojson varies its white space on purpose; what is printed here does not.
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return true, err
	}
	e := json.NewEncoder(stdout)
	e.SetEscapeHTML(false)
	if multiline {
		e.SetIndent("", "  ")
	}
	return true, e.Encode(v)
}
