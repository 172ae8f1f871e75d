// Package proxy is the HTTP side of the sidecar: it takes a decode endpoint's requests in
// its place, has prompts prefilled by whom the header x-prefiller-host-port names, and media
// encoded by whom x-encoder-hosts-ports names, and passes everything on to the model server beside it.
//
// It promises:
//
//   - Nobody is called but the model server and, with protection on, endpoints of the pool.
//     The headers by which routers tell it what to do are removed from every request,
//     whatever its path.
//   - What is not to be prefilled elsewhere goes through as it comes, body and answer
//     streamed, not a byte changed.
//   - What is decoded without being prefilled elsewhere is counted by its reason, as is
//     each prefill leg by how it ended.
//   - Answers of chats that are decoded in rounds are one answer to the client; each round is
//     counted by how it ended, and what is decoded at once though rounds are wanted by why.
//   - Errors of its own are JSON as the OpenAI API has it, with the header
//     x-pointsman-reason; errors of the engines pass as they are.
//
// How the legs are run is package disagg's. It does not authenticate clients or retry decode
// legs: the router in front does.
package proxy
