// Package length serves context-length-aware, which rates endpoints by how well the
// length of the prompt fits the range that they are meant for, told by a label of the
// form "min-max" in tokens:
//
//	in the range       0.3 + 0.7 × (0.7/(1 + width/10000) + 0.3 × headroom/width)
//	outside            0.3 / (1 + distance/1000)
//	without the label  0.5
//	no range           0
//
// width is max − min, headroom is max − tokens, and a range of width 0 that fits is
// rated 1. So an endpoint for short prompts is not filled with what any other could
// take, and a request that nobody is meant for goes where it is missed by least.
//
// A request whose length is not known is abstained on, and so is a listed candidate
// that is neither in the pool as known here nor sent with labels. Dropping endpoints
// whose range does not fit is the router's part of the plug-in.
package length
