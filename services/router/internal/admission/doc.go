// Package admission decides which requests are let in when endpoints are full, and
// which model takes the place of the one that a request names.
//
// What operators say of requests is a Policy: objectives with priorities, models that
// are critical, rewrites. A Gate holds the newest one. The other half of the question,
// whether there is room, is answered by a saturation detector of the configuration:
// Utilization goes by what endpoints report, Concurrency by what was sent to them.
//
// It promises:
//
//   - A request is turned away only if it is sheddable and the detector says that there
//     is no room among the endpoints that could serve it: those of its subset and its
//     model. Where nobody could serve it, nobody asks: that is 503 and not 429.
//   - Sheddable is a request whose priority is below 0, or whose model is not called
//     critical where a Policy calls any models critical or not (see Policy.Sheddable).
//     Without either nothing is ever turned away here.
//   - Unknown is not full and not idle. Where an endpoint's figures were never read or
//     are too old, what was sent to it decides.
//   - A client names an objective, and cannot set a priority.
//
// Formulas and limits are those of the Inference Gateway's endpoint pickers, of both
// generations: see Utilization. It has no queue: a request is let in or turned away.
package admission
