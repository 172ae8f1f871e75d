module github.com/pointsman/pointsman/cmd/pointsman

go 1.26.0

require github.com/pointsman/pointsman/proto v0.0.0

require github.com/pointsman/pointsman/internal/kit v0.0.0

require github.com/pointsman/pointsman/services/router v0.0.0

require github.com/pointsman/pointsman/services/prefix-indexer v0.0.0

require github.com/pointsman/pointsman/services/metrics-collector v0.0.0

require github.com/pointsman/pointsman/services/scorer-kv v0.0.0

require github.com/pointsman/pointsman/services/scorer-queue v0.0.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/pointsman/pointsman/sim v0.0.0
	github.com/rogpeppe/go-internal v1.16.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/pointsman/pointsman/proto => ../../proto

replace github.com/pointsman/pointsman/internal/kit => ../../internal/kit

replace github.com/pointsman/pointsman/services/router => ../../services/router

replace github.com/pointsman/pointsman/services/prefix-indexer => ../../services/prefix-indexer

replace github.com/pointsman/pointsman/services/metrics-collector => ../../services/metrics-collector

replace github.com/pointsman/pointsman/services/scorer-kv => ../../services/scorer-kv

replace github.com/pointsman/pointsman/services/scorer-queue => ../../services/scorer-queue

replace github.com/pointsman/pointsman/sim => ../../sim
