// Package deploy checks what Pointsman is shipped as, without a container engine and
// without a cluster: the Dockerfiles are followed as an engine would, up to the final
// image, and what they build is started with the arguments of the Kubernetes
// manifests.
package deploy
