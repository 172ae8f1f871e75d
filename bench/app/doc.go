// Package app is the commands of the benchmark: those that measure, and those that run
// what is measured against as processes of their own.
package app
