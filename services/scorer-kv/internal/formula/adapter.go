package formula

import "slices"

// Adapters is what an endpoint says of its LoRA adapters.
type Adapters struct {
	// Running are the adapters in the running batch.
	Running []string
	// Waiting are those that only waiting requests need.
	Waiting []string
	// Max is how many fit at once.
	Max uint32
}

// Place is where an adapter stands at an endpoint.
type Place uint8

// Places.
const (
	Full    Place = iota // not here, and there is no slot for it
	Waits                // waiting requests need it, and all slots are taken
	Fits                 // not running, but there is a slot for it
	Running              // in the running batch
)

// Place returns where the adapter stands.
func (a *Adapters) Place(adapter string) Place {
	switch {
	case slices.Contains(a.Running, adapter):
		return Running
	case a.Taken() < int(a.Max):
		return Fits
	case slices.Contains(a.Waiting, adapter):
		return Waits
	default:
		return Full
	}
}

// Taken returns how many slots are taken or will be.
func (a *Adapters) Taken() int { return len(a.Running) + len(a.Waiting) }

// Score returns 1 where the adapter runs, 0.8 where there is a slot for it, 0.6 where
// requests for it wait, else 0.
func (p Place) Score() float32 {
	return [...]float32{Full: 0, Waits: .6, Fits: .8, Running: 1}[p]
}
