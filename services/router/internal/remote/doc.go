// Package remote is the router's side of the scorer contract, pointsman.scorer.v1,
// towards scorers in other processes.
//
// A Set holds all scorer services that the router may ask. It connects to every
// replica of each, learns what it serves, and keeps one stream per replica on which
// concurrent calls go out together: whatever has gathered is one message, and
// nothing waits for more. Services without streams are called one by one.
//
// It promises:
//   - a scorer that is down, slow, wrong or lying costs a request at most its
//     time-out, and soon nothing, since its breaker opens; a call whose stream breaks
//     is asked once more of another replica;
//   - a replica is only asked what it can answer: inputs that it asked for and that
//     the operator allows, tables that it was taught, parameters that it has found
//     good;
//   - every answer is held against the contract, and every breach is counted by kind
//     and told in words;
//   - a router runs, and loads its configuration, without any scorer being up.
//
// It does not decide what an answer is worth (package route), nor how long a request
// waits (package fanout), and it keeps no state about endpoints: tables and loads that
// it teaches come from the roster.
package remote
