// Package outcomes reads what routers tell of their picks, statev1.OutcomeBatch, as it
// comes over the bus.
//
// Every process hears of every pick three times, so this is read without making a
// message of it: a [Batch] is flat, keeps its room for the next one, and makes one
// string for all the ids in it. What it says of a batch is what the generated code
// says; a fuzz test compares the two. Fields that nobody uses are skipped unread.
//
// Whoever publishes makes statev1 messages.
package outcomes
