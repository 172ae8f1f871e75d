package app

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// A router is not ready before it knew an endpoint once; that there is none later does not
// change that.
func TestReadyOnceAnEndpointIsKnown(t *testing.T) {
	o, err := parse([]string{"--set", "admin.address="}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	waiting := func() bool {
		_, reasons := r.tel.Health.Ready()
		return slices.ContainsFunc(reasons, func(s string) bool { return strings.Contains(s, "endpoints") })
	}
	table := func(list ...roster.Endpoint) {
		tab, err := roster.NewTable(list)
		if err != nil {
			t.Fatal(err)
		}
		r.roster.SetTable(tab)
	}
	table()
	if !waiting() {
		t.Error("it is ready without an endpoint")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.awaitEndpoints(ctx, func() { close(ready) }) }()
	table(roster.Endpoint{ID: "e", Host: "10.0.0.1", Port: 8000})
	<-ready
	if waiting() {
		t.Error("it is not ready although there is an endpoint")
	}
	table()
	if waiting() {
		t.Error("it is not ready any more because the pool is scaled to zero")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
