// Package roster holds what a process knows of a pool's endpoints: who they are,
// how busy they said they were, and what was sent to them since.
//
// A Table is immutable and content-addressed: whoever knows the same members has
// the same digest and the same positions. A Snapshot is one immutable view of a
// table with the newest loads in columns; taking one is an atomic load. In-flight
// counts and credits are read live through the snapshot, without locks.
//
// Every figure has an age, and unknown is not zero: a figure that was never read is
// -1, and Snapshot.Fresh says whether an endpoint's figures may be believed.
//
// Credit is the picks that the last scrape cannot have seen: a pick's credit ends
// with the first scrape that started after the pick reached its endpoint, or with
// its release. The expected load is the scraped figure plus the credit.
//
// The package knows no bus and no policy; package follower keeps a Roster in step
// with the broadcast.
package roster
