package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// reloading are transport credentials that follow files. A tls.Config cannot: its RootCAs are fixed, and verifying by hand in
// VerifyConnection would have to do without the name when the server is addressed by IP.
type reloading struct {
	files *files
	make  func(*material) *tls.Config

	mu    sync.Mutex
	of    *material // what inner was made of
	inner credentials.TransportCredentials
}

func newReloading(f *files, build func(*material) *tls.Config) *reloading {
	return &reloading{files: f, make: build}
}

// now returns credentials of the present material; the same as before if that has not changed, which lets sessions resume.
func (r *reloading) now() credentials.TransportCredentials {
	m := r.files.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner == nil || r.of != m {
		r.inner, r.of = credentials.NewTLS(r.make(m)), m
	}
	return r.inner
}

func (r *reloading) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.now().ClientHandshake(ctx, authority, c)
}

func (r *reloading) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.now().ServerHandshake(c)
}

func (r *reloading) Info() credentials.ProtocolInfo { return r.now().Info() }

func (r *reloading) Clone() credentials.TransportCredentials { return newReloading(r.files, r.make) }

// OverrideServerName is part of the interface and deprecated there; TLSConfig.ServerName does it.
func (r *reloading) OverrideServerName(name string) error {
	return r.now().OverrideServerName(name) //nolint:staticcheck // the interface demands it
}
