package wire

// Kind is the part of an HTTP exchange that a message is about. Its values are the
// field numbers in ProcessingRequest; those in ProcessingResponse are one less.
type Kind uint8

// Kinds of messages.
const (
	// Nothing is a message that is about no part.
	Nothing          Kind = 0
	RequestHeaders   Kind = 2
	ResponseHeaders  Kind = 3
	RequestBody      Kind = 4
	ResponseBody     Kind = 5
	RequestTrailers  Kind = 6
	ResponseTrailers Kind = 7
)

// Mode is how a proxy sends bodies. Its values are those of BodySendMode.
type Mode uint8

// Modes.
const (
	None              Mode = 0
	Streamed          Mode = 1
	Buffered          Mode = 2
	BufferedPartial   Mode = 3
	FullDuplex        Mode = 4
	GRPC              Mode = 5
	modes                  = 6
	fullDuplexSpelled      = "FULL_DUPLEX_STREAMED"
)

var modeNames = [modes]string{"NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", fullDuplexSpelled, "GRPC"}

// String returns the mode as in Envoy's configuration, "UNKNOWN" if it has none.
func (m Mode) String() string {
	if m >= modes {
		return "UNKNOWN"
	}
	return modeNames[m]
}

// Supported is true for the modes that this protocol's servers know how to answer.
func (m Mode) Supported() bool { return m <= FullDuplex }

// ParseMode returns the mode that Envoy's configuration spells so.
func ParseMode(s string) (Mode, bool) {
	for m, name := range modeNames {
		if name == s {
			return Mode(m), true //nolint:gosec // below modes
		}
	}
	return 0, false
}

// Protocol is what a proxy tells of its configuration in its first message.
type Protocol struct {
	// Known is false if it tells nothing.
	Known bool
	// Request and Response are the modes of the bodies.
	Request, Response Mode
	// NoWait is true if the body is sent without awaiting the answer to the headers.
	NoWait bool
}
