// Package text prints what a router says for people to read.
package text
