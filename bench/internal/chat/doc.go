// Package chat makes the requests that benchmarks send: OpenAI chat completions of an
// exact size, in conversations that share system prompts, so that prompts have common
// beginnings as real ones do. The same numbers always make the same bodies.
package chat
