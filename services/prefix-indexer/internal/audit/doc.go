// Package audit compares what the index believes with what engines report of their
// prefix caches, and says what is to be done about it.
//
// An engine can lose its cache while it goes on running (a reset, a sleep, a restart in
// place), or hold less than the index remembers. Nobody says so, but an engine that
// reports cached prompt tokens contradicts the index from then on. A contradiction is a
// report of less than half of the share of the prompt that was believed. Since caches let
// go of the least recently used first, it says that the prefix is gone and with it all
// that the endpoint was last sent before it. Three of them, with nothing as old reported
// present in between, are believed: what two of the three say is gone is forgotten.
//
// What contradicts nothing:
//
//   - engines that do not report cached tokens, and endpoints that have never reported
//     any: theirs may be a zero that means nothing;
//   - a prefix that was believed only because of requests that had not got their first
//     token when the next was picked, so that it was not computed yet;
//   - short prefixes, and partial hits of half the belief and more;
//   - what rests on placements that are forgotten already.
//
// The other way round, reports far above the belief, all endpoints together, say that
// the index looks at something else than the engines: see Rates.
//
// It knows no bus and no clock; times are handed in.
package audit
