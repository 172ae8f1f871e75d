// Package workload makes conversations to put to model servers, real or simulated.
//
// A workload is a number of sessions that begin at random times. A session has a system prompt, which it shares with
// other sessions, and some turns; the prompt of each turn is all that was said before, answers included, and a new text.
// Sizes are drawn from quantiles, so that a measured distribution can be written down as it is.
//
// Everything follows from Config.Seed: session i is the same in every process, in whatever order sessions are made.
// Texts are words of three letters, each with its space one token of package token. The package sends nothing.
package workload
