module github.com/pointsman/pointsman/conformance

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/pointsman/pointsman/proto v0.0.0
	github.com/pointsman/pointsman/sdk/scorer v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/pointsman/pointsman/proto => ../proto

replace github.com/pointsman/pointsman/sdk/scorer => ../sdk/scorer
