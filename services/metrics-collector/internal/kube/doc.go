// Package kube follows what Kubernetes says of pools: InferencePools of both
// generations, the pods they select, and InferenceObjectives, InferenceModelRewrites
// and InferenceModels that refer to them.
//
// It promises:
//
//   - A pod is an endpoint as long as it is in the pool's namespace, has the labels of
//     the pool's selector, is Ready, has an address, and is neither being deleted nor
//     finished. What changes that is told as soon as the API server tells it.
//   - The state is read anew whenever a watch has ended, for whatever reason, and what
//     is gone from it is gone: nothing depends on an event having arrived.
//   - What cannot be read changes nothing: the state stays as it was, which is logged
//     when it begins and when it ends, counted, and shown in a gauge.
//   - Nothing is told of a pool before all that concerns it has been read once. A pool
//     that does not exist, and rights that are missing, are waited for.
//   - An endpoint is named by its pod's UID and its rank, so a pod that returns under
//     its old name is a new endpoint, and all collectors name it alike.
//   - An object that cannot be used is left out; the others count.
//
// It lists and watches by itself and not through client-go's informers, because those
// neither read anew after a lost watch nor come back within a second after an outage.
// It writes nothing to the API server, and needs leave to list and watch only.
package kube
