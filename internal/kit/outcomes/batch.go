package outcomes

import (
	"slices"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// Kind says what happened.
type Kind uint8

// Kinds. Other stands for events that are not known here.
const (
	Other Kind = iota
	Picked
	FirstToken
	Finished
)

// NotReported stands for a count that the model server did not report.
const NotReported = -1

// Event is one event in the life of a pick: statev1.OutcomeEvent, flat. Fields that are
// not of its kind are zero.
type Event struct {
	Kind   Kind
	PickID uint64

	// Of Picked.

	Endpoint                     string
	PromptTokens, UncachedTokens uint32
	AgeMS                        uint32 // from the pick to the sending of the batch

	// Of Finished.

	Completed                            bool
	ReportedTokens, ReportedCachedTokens int64 // of the prompt; NotReported
}

// Batch is one statev1.OutcomeBatch. The zero value is empty.
type Batch struct {
	// Deaf names a publisher whose events are not read, only that it spoke: this
	// process's own, which knows its picks. Empty: none. Unmarshal leaves it alone.
	Deaf string
	// Events are the events, oldest first.
	Events []Event
	// Leaving says that all open picks of the router are over.
	Leaving bool

	stamp stamp
}

// GetStamp returns who says it. It is not to be kept or changed.
func (b *Batch) GetStamp() *statev1.Stamp { return &b.stamp.message }

// Clone returns a copy that may be kept while b is used again.
func (b *Batch) Clone() *Batch {
	c := &Batch{Deaf: b.Deaf, Events: slices.Clone(b.Events), Leaving: b.Leaving}
	c.stamp.take(&b.stamp)
	return c
}
