// Package prompt reads what routing needs to know out of a request body: model,
// prompt, limits, session. It never changes the body.
//
// A body is read once by a scanner that builds nothing from it. The prompt is kept
// as a list of segments, which are slices of the body; unescaping, compacting and
// hashing happen when a prefix chain is asked for, and only as far as the chain
// reaches. So a body must stay as it is until Prompt.Release.
//
// # The canonical prompt
//
// The chain is taken over a canonical form of the prompt, which is a byte string:
//
//   - A frame is the byte 0x1E followed by a letter. Text cannot forge one: JSON
//     strings hold 0x1E only as an escape, and it is written as two.
//   - Chat, Messages and Responses: the tools (frame T, then compact JSON), functions
//     (F), documents (D) and chat_template (K) if there are any; then the system
//     prompt or the instructions as a message of role "system"; then each message as
//     frame m and the role, frame n and the name, frame c and the text of each part
//     that has text, frame x and compact JSON for each part of another type, then
//     frame k, f and i for tool_calls, function_call and tool_call_id. An item that
//     has no role is frame v and compact JSON. A content that is absent, null or empty
//     writes nothing.
//   - A prompt string is its text, without a frame. Of a list of strings, all but the
//     first are preceded by frame p.
//   - A list of token ids is the word 0xFFFFFFFF and then each id, in 4 bytes, little
//     endian. A list of lists is all of them in order.
//   - Rerank and score: query (frame Q), documents (D), text_1 (A), text_2 (B), each
//     compact JSON.
//   - Compact JSON is the value as written, without white space between tokens. A
//     string in it of 256 bytes or more whose beginning looks like a URL or like
//     base64 is media: frame d, XXH64 of all of its bytes in 16 hexadecimal digits, a
//     point, and its length.
//
// So white space, the order of top-level keys and parameters that do not change the
// prompt change nothing, and a conversation that grows keeps its chain.
//
// # What is not understood
//
// A body of an unknown shape has no prompt and is routed by load; only what would
// be ambiguous or harmful is an error, see Error. Tokenize, detokenize and
// count_tokens leave nothing in an engine's cache and have no prompt on purpose.
// Bodies encoded with gzip, deflate, zstd or br are read through a decoded copy, which is
// made in pieces and no further than it can be read, and is gone with Prompt.Release.
// One copy and all together have limits: a body above the first is refused where it would
// have to be read, and routed by load elsewhere, as is one for which there is no room. So are bodies with another encoding, several on top
// of each other, or a zstd window above the 8 MiB of HTTP (RFC 9659), with Reading.Opaque set to UnreadEncoding.
package prompt
