// Package prefix serves prefix-cache-scorer, which rates endpoints by how much of the
// request's prompt they have been sent before:
//
//	score = leading blocks of the prompt that the endpoint holds ÷ blocks of the prompt
//
// Blocks count from the start without a gap, since an engine's prefix cache can use
// no others. A block is some bytes of the canonical prompt; what is left over at the
// end counts for nothing. The model is not a block: it is folded into the hashes.
//
// Nothing found is a score of 0 for everybody, which adds nothing to anybody's total,
// so that pickers of any kind do as if the scorer were not there. A request without
// blocks, such as one shorter than a block, is abstained on. So is a listed candidate
// that is not in the pool as known here; one that was and has left scores 0.
//
// The parameters are those of the Inference Gateway's plug-in of the same name, of all
// generations: see Settings.
package prefix
