// Package load sends requests at a target and measures how long each takes: as a proxy
// asks an endpoint picker (ext_proc, one stream per request), or as a client asks an
// HTTP server.
//
// It promises:
//   - in a closed loop, so many requests are always under way; in an open one, requests
//     begin at the times of a Poisson process, whatever the target does, and latency
//     counts from the intended time, so that a target which stalls cannot hide it;
//   - every answer is checked, in full; one that is wrong is counted and never timed;
//   - what is counted and timed is what ended within the window between Begin and End.
//
// It runs in the process of whoever measures and shares the machine with the target:
// figures of throughput are of both together, figures of CPU of the target alone.
package load
