// Package contrast turns counts into scores by comparing the candidates of one
// request with each other: the fewest score 1, the most 0, the others in proportion.
//
// It promises that scores are within 0..1, that nobody's unknown count moves anybody
// else's score, and that equal counts score 1, so that they change nobody's order.
package contrast
