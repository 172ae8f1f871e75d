package extproc

import "testing"

// B227: what changes an engine is answered before anybody is asked, however it is
// written, and all else goes on.
func TestB227PathsThatAreNotServed(t *testing.T) {
	r := newRig(t)
	blocked := []string{
		"/flush_cache", "/flush_cache/", "/flush_cache?a=b", "//flush_cache", "/x/../flush_cache", "/./flush_cache", "/flush%5fcache", "/%66lush_cache", "/v1/load_lora_adapter", "/v1//load_lora_adapter",
		"/v1/%2e%2e/sleep", "/v2/repository/index", "/update_weights_from_disk",
	}
	for _, path := range blocked {
		for _, method := range []string{"GET", "POST"} {
			p := r.duplex()
			p.headers(method, path, method == "GET")
			if got := p.refused(); got.Status != 404 || got.Reason != "not-found" {
				t.Errorf("%s %s: refused with %+v", method, path, got)
			}
		}
	}
	for _, name := range []string{"x-original-path", "x-forwarded-path"} { // what a client says of the path
		p := r.duplex()
		p.headers("POST", "/flush_cache", false, name, "/v1/models")
		if got := p.refused(); got.Status != 404 {
			t.Errorf("%s: refused with %+v", name, got)
		}
	}
	r.ended("not-found", 2*len(blocked)+2)
	if n := r.decided(); n != 0 {
		t.Errorf("%d decided", n)
	}
	for _, path := range []string{"/v1/models", "/health", "/flush_cached", "/v1/x.y/..z", "/v1/a%20b", "/"} {
		p := r.duplex()
		p.headers("GET", path, true)
		p.routed()
		p.finish()
	}
}

// Operators may let everything through.
func TestBlockedPathsAreConfigured(t *testing.T) {
	r := newRig(t, with(func(c *Config) { c.BlockedPaths = []string{"/mine"} }))
	p := r.duplex()
	p.headers("GET", "/flush_cache", true)
	p.routed()
	p.finish()
	p = r.duplex()
	p.headers("GET", "/mine/too", true)
	if got := p.refused(); got.Status != 404 {
		t.Errorf("refused with %+v", got)
	}
}
