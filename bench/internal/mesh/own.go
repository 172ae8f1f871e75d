package mesh

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// Fleet is the fake model servers as a process.
type Fleet struct{ *Process }

// StartFleet starts so many model servers, with large metrics pages or small ones.
func StartFleet(self string, servers int, large bool) (*Fleet, error) {
	p, err := Start(Command{
		Name: "model servers", Path: self, Listeners: []string{"servers"},
		Args: []string{"fleet", "--servers", fmt.Sprint(servers), fmt.Sprintf("--large=%t", large)},
	})
	if err != nil {
		return nil, err
	}
	return &Fleet{p}, nil
}

// Addresses returns "host:port" of each server.
func (f *Fleet) Addresses() []string { return strings.Split(f.Address("servers"), ",") }

// plain undoes what our programs do to Go's runtime, as env may.
func plain(env []string) []string {
	return append([]string{"GOMAXPROCS=" + strconv.Itoa(runtime.NumCPU()), "GODEBUG=schedtrace=0"}, env...)
}

// StartFloor starts the external processor that only echoes, on a runtime as Go makes it.
func StartFloor(self string, env []string) (*Process, Subject, error) {
	p, err := Start(Command{Name: "floor", Counted: true, Path: self, Args: []string{"floor"}, Env: plain(env), Listeners: []string{"extProc"}})
	if err != nil {
		return nil, Subject{}, err
	}
	return p, Subject{Name: "floor", Address: p.Address("extProc"), Parts: []Part{{Name: "floor", Counted: true, PID: p.PID()}}}, nil
}
