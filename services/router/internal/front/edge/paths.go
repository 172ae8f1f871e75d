package edge

import (
	"net/url"
	"path"
	"strings"
)

// Covered is true if a path is one of the list or below one: /v1/ covers what is below
// it, /v1 itself too.
func Covered(list []string, path string) bool {
	for _, p := range list {
		below, ok := strings.CutPrefix(path, p)
		if ok && (below == "" || below[0] == '/' || strings.HasSuffix(p, "/")) {
			return true
		}
	}
	return false
}

// Resolved returns a path as a server may read it: unescaped, without dots and repeated
// slashes.
func Resolved(raw string) string {
	if p, err := url.PathUnescape(raw); err == nil {
		raw = p
	}
	return path.Clean("/" + raw)
}
