// Package procstat reads what the kernel accounts of processes and of the machine:
// CPU time to the nanosecond, context switches, resident memory, time that the
// hypervisor gave to others, and the work of everybody else.
//
// It is for Linux. It measures and changes nothing; two samples make a difference,
// which is what figures are made of.
package procstat
