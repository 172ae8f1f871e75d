module github.com/pointsman/pointsman/sim

go 1.26.0

require github.com/pointsman/pointsman/proto v0.0.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/pointsman/pointsman/internal/kit v0.0.0
	go.uber.org/goleak v1.3.0
)

require github.com/prometheus/common v0.72.0 // indirect

replace github.com/pointsman/pointsman/proto => ../proto

replace github.com/pointsman/pointsman/internal/kit => ../internal/kit
