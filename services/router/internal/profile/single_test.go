package profile

import (
	"errors"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestSingleRunsItsProfileOnce(t *testing.T) {
	h := NewSingle("h")
	p := []*route.Profile{{Name: "default"}}
	next := h.Next(nil, p, nil)
	if len(next) != 1 || next[0] != p[0] {
		t.Fatalf("next %v", next)
	}
	done := []*route.ProfileResult{{Profile: p[0]}}
	if next := h.Next(nil, p, done); len(next) != 0 {
		t.Errorf("next %v after the profile ran", next)
	}
	if got, err := h.Primary(nil, done); err != nil || got != done[0] {
		t.Errorf("primary %v, %v", got, err)
	}
}

func TestSingleWantsOneResult(t *testing.T) {
	for _, done := range [][]*route.ProfileResult{nil, {{}, {}}} {
		if _, err := NewSingle("h").Primary(nil, done); !errors.Is(err, route.ErrNoEndpoint) {
			t.Errorf("%d results: %v", len(done), err)
		}
	}
}
