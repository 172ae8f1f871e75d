module example.com/carbon-scorer

go 1.26.0

require (
	github.com/pointsman/pointsman/conformance v0.0.0
	github.com/pointsman/pointsman/proto v0.0.0
	github.com/pointsman/pointsman/sdk/scorer v0.0.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

// Until the modules are published. In a repository of your own these lines go away.
replace (
	github.com/pointsman/pointsman/conformance => ../../conformance
	github.com/pointsman/pointsman/proto => ../../proto
	github.com/pointsman/pointsman/sdk/scorer => ../../sdk/scorer
)
