// Package watch tells when the content of a file changes.
//
// It promises that a file is read again soon after it was written, replaced by a
// rename, or reached by a symbolic link that was swapped, as Kubernetes does with the
// files of a mounted ConfigMap; that it is found by polling where the system does not
// notify; that a file which is being written is not taken for complete before it has
// stayed the same for a while; and that what is told is content that differs from what
// was told before.
//
// It does not interpret the content, and keeps no more than one copy of it.
package watch
