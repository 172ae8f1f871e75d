package run

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pointsman/pointsman/internal/kit/processors"
)

// Exit codes of [Main].
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// UsageError says that the command line was wrong, rather than the world: Main returns 2 for it.
type UsageError struct {
	Err error // what was wrong, in the words for the user
}

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e UsageError) Unwrap() error { return e.Err }

// Main runs f with the process's arguments and returns the exit code for [os.Exit]:
// 0 after success, a clean stop by a signal or [flag.ErrHelp]; 2 for a [UsageError]; 1 for every other error.
//
// The context that f gets ends at the first SIGINT or SIGTERM. The second one ends the process at once.
// An error is printed to stderr as "name: error" on one line; an error made of several faults (errors.Join)
// is printed one fault a line, each with the prefix.
//
// The process runs on as many processors as it has work for, see package processors.
//
// What libraries say through the standard logger goes to stderr without what they quote: net/http quotes bytes that
// others have sent, prompts and answers among them.
func Main(name string, f func(ctx context.Context, args []string, stdout io.Writer) error) int {
	log.SetOutput(unquoted{os.Stderr})
	ctx, cancel := context.WithCancel(context.Background())
	fitted := make(chan struct{})
	go func() {
		defer close(fitted)
		processors.Fit(ctx)
	}()
	defer func() {
		cancel()
		<-fitted
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // the default disposition is back: the next signal ends the process
		cancel()
	}()

	err := f(ctx, os.Args[1:], os.Stdout)
	if ctx.Err() != nil && onlyCanceled(err) {
		return exitOK
	}
	return report(os.Stderr, name, err)
}

// unquoted passes lines on up to their first quotation mark.
type unquoted struct{ to io.Writer }

func (w unquoted) Write(line []byte) (int, error) {
	before, _, quoted := bytes.Cut(line, []byte{'"'})
	if quoted {
		before = append(bytes.Clone(before), "…\n"...)
	}
	if _, err := w.to.Write(before); err != nil {
		return 0, err
	}
	return len(line), nil
}

// report prints err as Main promises and returns the exit code for it.
func report(stderr io.Writer, name string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(stderr, "%s: %s\n", name, line)
		}
	}
	if _, ok := errors.AsType[UsageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return exitUsage
	}
	return exitError
}

// onlyCanceled tells whether err says nothing but that a context was cancelled. In a joined error every fault must.
func onlyCanceled(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyCanceled(e) {
				return false
			}
		}
		return true
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyCanceled(inner)
	}
	return errors.Is(err, context.Canceled)
}
