// Package record runs the benchmark of record: every case of the table, subject after
// subject in interleaved rounds, so that what the machine does to one it does to all;
// and holds the figures against limits that do not depend on the machine.
package record
