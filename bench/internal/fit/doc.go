// Package fit finds the constants of a formula that is linear in them, by least squares,
// and says how far the formula is from what was measured.
//
// Errors are weighed relative to what was measured: a formula that is to hold from ten
// endpoints to a thousand may not be right only where figures are large. A constant of a
// cost cannot be below zero: a term that would be is left out.
package fit
