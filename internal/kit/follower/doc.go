// Package follower keeps a roster in step with the broadcast: endpoint tables,
// loads, and the picks of every router.
//
// It promises that a late joiner or one that lost messages asks for what it missed
// (tables and loads from any collector, open picks from the router concerned), that
// a router which falls silent for 10 s or says that it leaves has its picks ended,
// and that nothing which arrives late or twice is counted twice.
//
// When collectors disagree about the members, the table that changed last is
// followed, until all tell the same again. The same holds for what they tell of
// requests, the policy, which is only listened to where somebody wants it.
package follower
