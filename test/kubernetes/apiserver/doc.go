// Package apiserver runs a real Kubernetes API server with its etcd for tests: without
// nodes, controllers and images, so objects are what tests make of them. Both listen on
// loopback only and end with the tests. Rights are checked (RBAC), and Pod Security is
// enforced where a namespace asks for it.
package apiserver
