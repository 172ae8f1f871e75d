package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Config says how a file is watched.
type Config struct {
	// Path is the file. REQUIRED.
	Path string
	// Poll is the time between looks at the file's content, whether or not the system
	// notifies of changes. Default 2 s.
	Poll time.Duration
	// Settle is how long the content must stay the same to be taken for complete.
	// Default 50 ms. It delays every change by so long.
	Settle time.Duration
	// MaxBytes is how long the file may be, in bytes. Default 1 MiB.
	MaxBytes int64
}

// DefaultConfig returns the defaults for a file.
func DefaultConfig(path string) Config {
	return Config{Path: path, Poll: 2 * time.Second, Settle: 50 * time.Millisecond, MaxBytes: 1 << 20}
}

// Validate returns all faults.
func (c Config) Validate() error {
	var faults []error
	if c.Path == "" {
		faults = append(faults, errors.New("watch: no path"))
	}
	if c.Poll <= 0 || c.Settle < 0 || c.MaxBytes <= 0 {
		faults = append(faults, fmt.Errorf("watch %s: poll %v and %d bytes must be above zero, settle %v not below", c.Path, c.Poll, c.MaxBytes, c.Settle))
	}
	return errors.Join(faults...)
}

// Read returns the file's content.
func (c Config) Read() ([]byte, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, c.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", c.Path, err)
	case int64(len(text)) > c.MaxBytes:
		return nil, fmt.Errorf("%s is longer than %d bytes", c.Path, c.MaxBytes)
	}
	return text, nil
}

// File is a file that is watched.
type File struct {
	cfg    Config
	seen   []byte // what was told last
	failed string // or why nothing could be told
}

// New returns a watched file. seen is the content that is known already.
func New(cfg Config, seen []byte) (*File, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &File{cfg: cfg, seen: seen}, nil
}

// Run calls changed with the content whenever it differs from what is known, and with
// an error whenever the file cannot be read for a new reason, until ctx ends. Calls
// come one at a time. unnotified is called if the system does not notify of changes,
// so that there is polling alone; it may be nil.
func (f *File) Run(ctx context.Context, changed func(content []byte, err error), unnotified func(error)) {
	events, done, err := notifications(f.cfg.Path)
	if err != nil && unnotified != nil {
		unnotified(err)
	}
	defer done()
	ticker := time.NewTicker(f.cfg.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-ticker.C:
		}
		f.look(ctx, changed)
	}
}

// look reads the file, and again until it stays the same.
func (f *File) look(ctx context.Context, changed func([]byte, error)) {
	text, err := f.cfg.Read()
	for ctx.Err() == nil && f.news(text, err) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.cfg.Settle):
		}
		again, errAgain := f.cfg.Read()
		if bytes.Equal(text, again) && words(err) == words(errAgain) {
			f.seen, f.failed = text, words(err)
			changed(text, err)
			return
		}
		text, err = again, errAgain
	}
}

// news says whether a read brought anything that was not told.
func (f *File) news(text []byte, err error) bool {
	if err != nil {
		return words(err) != f.failed
	}
	return f.failed != "" || !bytes.Equal(text, f.seen)
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
