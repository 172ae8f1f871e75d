module github.com/pointsman/pointsman/sim

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/pointsman/pointsman/internal/kit v0.0.0
	github.com/prometheus/common v0.72.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/pointsman/pointsman/proto => ../proto

replace github.com/pointsman/pointsman/internal/kit => ../internal/kit

replace github.com/pointsman/pointsman/sdk/scorer => ../sdk/scorer
