// Package scorersvc runs a scorer service that follows the broadcast: it reads the
// command line and the configuration, keeps a roster in step, serves the scorer
// contract, counts calls and says whether the service is ready. What is left to the
// service is its name, its types, and settings and parts of its own.
//
// It promises that
//
//   - every service has the flags --config, --set and --pool and the keys of
//     [Config], with its own beside them;
//   - parts start in the order admin, bus, follower, the service's own, gRPC, and
//     stop in reverse: nobody is served before the state is there;
//   - streams end by themselves when the service stops, so that routers go to
//     another replica without an error;
//   - pointsman_<service>_calls_total and pointsman_<service>_abstentions_total are
//     there, by scorer type.
//
// It knows no scorer type and scores nothing. A scorer that does not follow the
// broadcast needs only package scorer.
package scorersvc
