package hop

import "strings"

// Own is true for headers that belong to a connection and not to a message, in canonical form (RFC 9110, section 7.6.1, and
// those that older proxies use). So do those that the header Connection lists: see [Listed].
func Own(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// Listed is true if a header's values, comma lists of tokens, hold the token, in any case.
func Listed(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
