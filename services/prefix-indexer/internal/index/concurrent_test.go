package index

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestMatchingWhileChanging has readers match while a writer places, evicts, drops
// endpoints and makes tables larger. What is always there must always be found whole;
// everything else must be between nothing and all.
func TestMatchingWhileChanging(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 600})
	ids := names(70)
	x.SetEndpoints(ids)
	pinned := long(1, 1, 4, 120)
	for _, id := range ids[:8] {
		place(t, x, id, pinned)
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			ordinals, got := make([]int32, len(ids)), make([]uint32, len(ids))
			for n := 0; !stop.Load(); n++ {
				now := x.Endpoints()
				for i, id := range ids {
					ordinals[i] = now.Ordinal(id)
				}
				chain := pinned
				if n%2 == 1 {
					chain = long(1, uint64(n%300), 4, 90)
				}
				x.Match(testKey, chain, ordinals, got)
				for i, m := range got {
					if n%2 == 0 && i < 8 && m != uint32(len(pinned)) || m > uint32(len(chain)) {
						t.Errorf("endpoint %d matches %d of %d blocks", i, m, len(chain))
						stop.Store(true)
						return
					}
				}
			}
		})
	}
	for i := range 1500 {
		if stop.Load() {
			break
		}
		place(t, x, ids[8+i%62], long(1, uint64(i%300), 4, 90))
		if i%20 < 8 {
			place(t, x, ids[i%20], pinned)
		}
		if i%100 == 0 {
			x.SetEndpoints(ids[:60+i/100%10])
			x.SetEndpoints(ids)
		}
	}
	stop.Store(true)
	readers.Wait()
	x.check(t)
	if x.Stats().Evicted.Capacity == 0 {
		t.Error("nothing was evicted, so nothing was tested")
	}
}

// counted counts how often it is locked.
type counted struct {
	sync.Mutex
	locked int
}

func (c *counted) Lock() {
	c.Mutex.Lock()
	c.locked++
}

// TestReaderWaitsForAWriterThatIsTooQuick covers the way out of endless retries: what was
// in vain without the writer's lock is read under it.
func TestReaderWaitsForAWriterThatIsTooQuick(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x"})
	chain := path(1, 2)
	place(t, x, "x", chain)
	f := (*x.forests.Load())[testKey].forest
	for tries, locked := range []int{1, 0} {
		var writer counted
		in, with, without := []uint64{3}, []uint64{9}, []uint64{9}
		some, rest := f.split(&writer, tries, chain[1], in, with, without)
		if !some || !rest || with[0] != 1 || without[0] != 2 || writer.locked != locked {
			t.Errorf("%d tries: %v, %v, %x, %x, locked %d times; want some and rest, 1, 2, %d times", tries, some, rest, with, without, writer.locked, locked)
		}
	}
}
