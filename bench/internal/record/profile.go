package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pointsman/pointsman/bench/internal/mesh"
)

// profiled is how long a CPU profile is taken.
const profiled = 5 * time.Second

// profile takes a CPU profile of every part of a subject that has an admin page, at the
// same time, into files <prefix>-<part>.pprof of a directory.
func profile(ctx context.Context, s *mesh.Subject, dir, prefix string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	var mu sync.Mutex
	var errs []error
	var taking sync.WaitGroup
	for _, p := range s.Parts {
		if p.Admin == "" {
			continue
		}
		taking.Go(func() {
			err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.Admin, int(profiled.Seconds())), filepath.Join(dir, prefix+"-"+p.Name+".pprof"))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	taking.Wait()
	return errors.Join(errs...)
}

func fetch(ctx context.Context, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 4*profiled)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s answers %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
