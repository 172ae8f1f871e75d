package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	pageSize = 500
	// A watch is asked to end after this long to twice as long.
	watchTime = 5 * time.Minute
	// silence ends a watch that says nothing: there should be a bookmark every minute.
	silence = 150 * time.Second
	// Waits between attempts. While nobody answers an attempt costs nobody anything, and
	// whoever comes back shall be read within a second.
	firstWait   = 100 * time.Millisecond
	awayWait    = 800 * time.Millisecond
	longestWait = 2 * time.Second
	absentWait  = 5 * time.Second
	// steady is how long a watch must have lasted for its end to be nothing unusual.
	// After those that end sooner there is a wait, or somebody who ends all of them
	// at once would have everything listed again and again without a pause.
	steady = 5 * time.Second
	// goneAfter is how often in a row a type that was there must be said to be none.
	goneAfter = 3
)

// source is one kind of object at one place of the API, kept in step with it.
type source[T any] struct {
	resource string // for people and metrics
	path     string
	query    url.Values // selectors
	optional bool       // the type need not be installed
	decode   func(json.RawMessage) (T, error)
	notify   func() // called without lock after every change

	client *client
	log    *slog.Logger
	meters *meters

	refused map[string]string // what objects are left out for, by namespace/name; of run alone

	mu     sync.Mutex
	items  map[string]T // by namespace/name
	synced bool         // read once
	trouble
}

// trouble is what is wrong with a source now.
type trouble struct {
	err    error // nil: nothing
	absent int   // times in a row that there was no such type
}

// identity is what every object has.
type identity struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// state says whether the source has been read, and what is wrong with it.
func (s *source[T]) state() (synced bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced, s.err
}

// each calls f with every object, in no order. f must not keep the source waiting.
func (s *source[T]) each(f func(T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range s.items {
		f(item)
	}
}

// run follows the source until ctx ends.
func (s *source[T]) run(ctx context.Context) {
	defer s.meters.ended(s, s.resource)
	wait := firstWait
	for ctx.Err() == nil {
		version, err := s.read(ctx)
		over := false // a watch has ended as watches do
		if err == nil {
			began := time.Now()
			err = s.follow(ctx, version)
			over = err == nil || reasonOf(err) == expired
			if time.Since(began) > steady {
				wait = firstWait
				if over {
					continue // read anew at once
				}
			}
		}
		if ctx.Err() != nil {
			return
		}
		longest := longestWait
		if over || reasonOf(err) == unreachable {
			longest = awayWait
		}
		if !over && s.failed(err) {
			pause(ctx, absentWait)
			continue
		}
		pause(ctx, min(wait, longest))
		wait = min(2*wait, longest)
	}
}

// read lists all objects, and returns where a watch goes on from.
func (s *source[T]) read(ctx context.Context) (version string, err error) {
	items, refused := make(map[string]T), make(map[string]string)
	query := s.with("limit", strconv.Itoa(pageSize))
	for {
		p, err := s.client.list(ctx, s.path, query)
		if reasonOf(err) == expired && query.Get("limit") != "" {
			// The list took longer than the API server remembers: all at once.
			query.Del("continue")
			query.Del("limit")
			clear(items)
			clear(refused)
			continue
		}
		if err != nil {
			return "", err
		}
		for _, raw := range p.Items {
			s.put(items, refused, raw)
		}
		version = p.Metadata.ResourceVersion
		if p.Metadata.Continue == "" {
			break
		}
		query.Set("continue", p.Metadata.Continue)
	}
	s.meters.listed(s.resource)
	s.refused = refused
	s.mu.Lock()
	s.items, s.synced = items, true
	s.mu.Unlock()
	s.notify()
	return version, nil
}

// put adds an object to items. One that cannot be used is left out, also if it could
// be used before; why goes to refused, and to the log when it is new.
func (s *source[T]) put(items map[string]T, refused map[string]string, raw json.RawMessage) {
	var id identity
	var item T
	err := json.Unmarshal(raw, &id)
	if err == nil {
		item, err = s.decode(raw)
	}
	key := id.Metadata.Namespace + "/" + id.Metadata.Name
	if err == nil {
		items[key] = item
		delete(refused, key)
		return
	}
	delete(items, key)
	s.meters.fault(s.resource, garbled)
	if s.refused[key] != err.Error() {
		s.log.Warn("object is not understood and left out", "resource", s.resource, "object", key, "error", err)
	}
	refused[key] = err.Error()
}

func (s *source[T]) with(pairs ...string) url.Values {
	q := make(url.Values, len(s.query)+len(pairs)/2)
	for name, values := range s.query {
		q[name] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// follow applies events until the watch ends, which is no error.
func (s *source[T]) follow(ctx context.Context, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seconds := int64((watchTime + rand.N(watchTime)) / time.Second)
	body, err := s.client.watch(ctx, s.path, s.with("watch", "true", "allowWatchBookmarks", "true", "resourceVersion", version, "timeoutSeconds", strconv.FormatInt(seconds, 10)))
	if err != nil {
		return err
	}
	defer body.Close()
	s.well()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	for events := json.NewDecoder(body); ; {
		var e event
		if err := events.Decode(&e); err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return &fault{garbled, err}
			}
			return nil // it has ended, whyever: what counts is whether it can be read again
		}
		quiet.Reset(silence)
		if err := s.apply(&e); err != nil {
			return err
		}
	}
}

func (s *source[T]) apply(e *event) error {
	switch e.Type {
	case "ADDED", "MODIFIED":
		s.mu.Lock()
		s.put(s.items, s.refused, e.Object)
		s.mu.Unlock()
	case "DELETED":
		var id identity
		if err := json.Unmarshal(e.Object, &id); err != nil {
			return &fault{garbled, err}
		}
		s.mu.Lock()
		key := id.Metadata.Namespace + "/" + id.Metadata.Name
		delete(s.items, key)
		delete(s.refused, key)
		s.mu.Unlock()
	case "ERROR":
		var status struct {
			Code int `json:"code"`
		}
		if err := json.Unmarshal(e.Object, &status); err != nil {
			return &fault{garbled, err}
		}
		return refusal(status.Code, e.Object)
	default: // BOOKMARK, and what may come
		return nil
	}
	s.meters.event(s.resource)
	s.notify()
	return nil
}

// well notes that the source was read.
func (s *source[T]) well() {
	s.mu.Lock()
	before := s.err
	s.trouble = trouble{}
	s.mu.Unlock()
	s.meters.following(s, s.resource, true)
	if before != nil {
		s.log.Info("Kubernetes objects are followed again", "resource", s.resource)
	}
}

// failed notes why the source could not be read. It returns true if that is to be
// expected.
func (s *source[T]) failed(err error) (expected bool) {
	r := reasonOf(err)
	s.mu.Lock()
	if r == absent && s.optional {
		s.absent++
		known := len(s.items) > 0
		if !known || s.absent >= goneAfter {
			changed := known || !s.synced
			s.items, s.synced, s.err = make(map[string]T), true, nil
			s.mu.Unlock()
			s.meters.following(s, s.resource, true)
			if changed {
				s.log.Info("Kubernetes has no such type of object; going on without", "resource", s.resource)
				s.notify()
			}
			return true
		}
	} else {
		s.absent = 0
	}
	before := s.err
	s.err = err
	s.mu.Unlock()
	s.meters.fault(s.resource, r)
	s.meters.following(s, s.resource, false)
	if before == nil || reasonOf(before) != r {
		s.log.Warn("Kubernetes objects cannot be followed; what is known of them stays as it was", "resource", s.resource, "reason", string(r), "error", err, "remedy", remedy(r, s.resource))
	}
	s.notify()
	return false
}

// remedy says what to do.
func remedy(r reason, resource string) string {
	switch r {
	case forbidden:
		return "allow the collector's service account to list and watch " + resource
	case absent:
		return "install the type of object"
	case unreachable, overloaded:
		return "none, if the API server comes back"
	}
	return "see the error"
}

// pause waits for between half of d and d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
