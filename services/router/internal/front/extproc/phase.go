package extproc

// phase is how far one direction of an exchange has come. The two directions go
// through theirs independently; a proxy may answer a request that has not ended.
//
//	expected ─► collecting ─► passing ─► ended
//	     └──────────┴────────────┴─────────┘    each may be skipped
//
// Every message is handled by the function named after its kind, in the file of that
// name, which decides by the phase of its direction.
type phase uint8

const (
	// expected: nothing has come.
	expected phase = iota
	// collecting: the body is kept until all of it is there and can be decided on. Only
	// requests are in this phase.
	collecting
	// passing: it is decided; the rest is passed on as it comes.
	passing
	// ended: end-of-stream has come. What comes now has no effect.
	ended
)
