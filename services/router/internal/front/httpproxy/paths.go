package httpproxy

import (
	"net/http"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/hop"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// served is true if requests for the path are passed on.
func (c *Config) served(path string) bool {
	// Dots and repeated slashes would be resolved by some servers and not by others,
	// so that a path could be another one there than here.
	if strings.Contains(path, "//") {
		return false
	}
	for s := range strings.SplitSeq(path, "/") {
		if s == "." || s == ".." {
			return false
		}
	}
	return edge.Covered(c.Paths, path) && !edge.Covered(c.BlockedPaths, path)
}

// wantsUpgrade is true if the client asks for another protocol on its connection.
// HTTP/2 is not one: an offer that may be ignored.
func wantsUpgrade(r *http.Request) bool {
	to := r.Header["Upgrade"]
	if len(to) == 0 || len(to) == 1 && strings.EqualFold(to[0], "h2c") {
		return false
	}
	return hop.Listed(r.Header["Connection"], "upgrade")
}
