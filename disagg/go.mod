module github.com/pointsman/pointsman/disagg

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/pointsman/pointsman/internal/kit v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/crypto v0.58.0
)

require (
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/pointsman/pointsman/internal/kit => ../internal/kit

replace github.com/pointsman/pointsman/proto => ../proto

replace github.com/pointsman/pointsman/sdk/scorer => ../sdk/scorer
