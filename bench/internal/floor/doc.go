// Package floor is an external processor that does nothing: a plain grpc-go server of
// envoy.service.ext_proc.v3 that sends every part back. No endpoint picker on grpc-go's
// usual ways can be cheaper, so it is what others are compared with in the same run.
package floor
