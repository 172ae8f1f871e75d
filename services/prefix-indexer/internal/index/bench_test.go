package index

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// BenchmarkMatch asks for a 100,000-token prompt: 1,563 blocks.
func BenchmarkMatch(b *testing.B) {
	const blocks = 1563
	for _, endpoints := range []int{10, 100, 1000} {
		warm := long(1, 1, blocks, blocks)
		shapes := map[string]func(i int) []uint64{
			"warm": func(int) []uint64 { return warm },
			"cold": func(int) []uint64 { return long(2, 2, blocks, blocks) },
			// One endpoint has the conversation, all have the system prompt.
			"conversation": func(i int) []uint64 {
				if i == 0 {
					return warm[:1500]
				}
				return warm[:60]
			},
			// Everybody holds a different part.
			"ragged": func(i int) []uint64 { return warm[:1+i*(blocks-1)/endpoints] },
		}
		for _, shape := range []string{"warm", "cold", "conversation", "ragged"} {
			b.Run(fmt.Sprintf("%s/endpoints=%d", shape, endpoints), func(b *testing.B) {
				x := newIndex(b, DefaultConfig())
				ids := names(endpoints)
				x.SetEndpoints(ids)
				ordinals, matched := make([]int32, endpoints), make([]uint32, endpoints)
				for i, id := range ids {
					ordinals[i] = x.Endpoints().Ordinal(id)
					for j := range uint64(min(20, 4000/endpoints)) { // bystanders
						if _, err := x.Place(testKey, id, long(100+j, uint64(i), 50, 200)); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := x.Place(testKey, id, shapes[shape](i)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					x.Match(testKey, warm, ordinals, matched)
				}
			})
		}
	}
}

// BenchmarkPlace learns prompts of 256 blocks on 100 full endpoints: each new block
// costs an eviction too.
func BenchmarkPlace(b *testing.B) {
	for _, shape := range []string{"unshared", "half-shared", "again"} {
		b.Run(shape, func(b *testing.B) {
			x := newIndex(b, DefaultConfig())
			ids := names(100)
			x.SetEndpoints(ids)
			chain := func(i int) []uint64 {
				switch shape {
				case "unshared":
					return long(uint64(i)+10, 0, 256, 256)
				case "half-shared":
					return long(uint64(i/1000)+10, uint64(i), 128, 256)
				default:
					return long(uint64(i%8000)+10, 0, 256, 256)
				}
			}
			next := 0
			place := func(n int) {
				for range n {
					if _, err := x.Place(testKey, ids[next%100], chain(next)); err != nil {
						b.Fatal(err)
					}
					next++
				}
			}
			place(26000) // full, and no longer growing
			chains := make([][]uint64, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			n, cpu := 0, -cpuTime()
			for b.Loop() {
				if n%len(chains) == 0 {
					b.StopTimer()
					cpu += cpuTime()
					for i := range chains {
						chains[i] = chain(next + i)
					}
					cpu -= cpuTime()
					b.StartTimer()
				}
				if _, err := x.Place(testKey, ids[next%100], chains[n%len(chains)]); err != nil {
					b.Fatal(err)
				}
				next++
				n++
			}
			cpu += cpuTime()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(256*n), "ns/block")
			b.ReportMetric(float64(cpu)/float64(256*n), "cpu-ns/block")
		})
	}
}

// BenchmarkMemory reports the heap per (block, endpoint) of a full index.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name               string
		endpoints, holders int
		blocks, shared     int
	}{
		{"unshared", 100, 1, 256, 0},
		{"short-tails", 100, 1, 256, 252},
		{"held-by-6", 600, 6, 256, 0},
		{"held-by-all", 100, 100, 256, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				before := heapInUse()
				x := newIndex(b, Config{MaxBytes: 8 << 30, DefaultCapacity: 31250})
				ids := names(c.endpoints)
				x.SetEndpoints(ids)
				for i := 0; x.Stats().Evicted.Capacity == 0; i++ {
					chain := long(3, uint64(i), c.shared, c.blocks)
					if c.shared == 0 {
						chain = long(uint64(i)+5, 0, c.blocks, c.blocks)
					}
					for j := range c.holders {
						if _, err := x.Place(testKey, ids[(i*c.holders+j)%c.endpoints], chain); err != nil {
							b.Fatal(err)
						}
					}
				}
				s := x.Stats()
				b.ReportMetric(float64(heapInUse()-before)/float64(s.Entries), "heap-B/entry")
				b.ReportMetric(float64(s.Bytes)/float64(s.Entries), "charged-B/entry")
				b.ReportMetric(float64(s.Entries), "entries")
				runtime.KeepAlive(x)
			}
		})
	}
}

// BenchmarkFull fills the index to the size that it is meant for, 1,000 endpoints that
// each hold 31,250 blocks which nobody else holds, and then asks it for a prompt of 1,563
// blocks that 100 of them hold.
func BenchmarkFull(b *testing.B) {
	const endpoints, capacity, length, holders = 1000, 31250, 250, 100
	for b.Loop() {
		before := heapInUse()
		x := newIndex(b, Config{MaxBytes: 3 << 29, DefaultCapacity: capacity})
		ids := names(endpoints)
		x.SetEndpoints(ids)
		chain, cpu := make([]uint64, length), int64(0)
		for i := range endpoints * capacity / length {
			for j := range chain {
				chain[j] = mix(1<<40 + uint64(i*length+j))
			}
			cpu -= cpuTime()
			if _, err := x.Place(testKey, ids[i%endpoints], chain); err != nil {
				b.Fatal(err)
			}
			cpu += cpuTime()
		}
		s := x.Stats()
		if s.Entries != endpoints*capacity || s.Evicted != (Evictions{}) {
			b.Fatalf("%+v", s)
		}
		heap := float64(heapInUse() - before)
		b.ReportMetric(heap/(1<<30), "heap-GiB")
		b.ReportMetric(float64(s.Bytes)/(1<<30), "charged-GiB")
		b.ReportMetric(heap/float64(s.Entries), "heap-B/entry")
		b.ReportMetric(float64(cpu)/float64(s.Entries), "place-cpu-ns/block")

		warm := long(1, 1, 1563, 1563)
		ordinals, matched := make([]int32, endpoints), make([]uint32, endpoints)
		for i, id := range ids {
			ordinals[i] = x.Endpoints().Ordinal(id)
			if i%(endpoints/holders) == 0 {
				if _, err := x.Place(testKey, id, warm); err != nil {
					b.Fatal(err)
				}
			}
		}
		const calls = 2000
		cpu = -cpuTime()
		for range calls {
			x.Match(testKey, warm, ordinals, matched)
		}
		b.ReportMetric(float64(cpu+cpuTime())/calls, "match-cpu-ns")
		if matched[0] != 1563 || matched[1] != 0 {
			b.Fatalf("matches %d and %d", matched[0], matched[1])
		}
		runtime.KeepAlive(x)
	}
}

// cpuTime is what the process has used of processors, in ns: what a benchmark costs on
// a machine that does other things too.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
