package requests

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/services/scorer-queue/internal/contrast"
)

// comparison rates by the place between the least and the most of the candidates.
type comparison struct{}

// parse finds no parameters.
func (comparison) parse(parametersJSON []byte) (any, *parameters.Reader) {
	return nil, parameters.Read(parametersJSON)
}

func (comparison) rate(_ any, c *columns, scores []float32) float32 {
	c.least, c.most, _ = contrast.Range(c.expected)
	width := c.width(c.least, c.most)
	contrast.Score(c.expected, c.least, width, scores)
	return float32(width)
}

// words are as in "3 waiting + 2 credited, pool 0–7".
func (comparison) words(_ any, c *columns, i int, figure string) string {
	return fmt.Sprintf("%d %s + %d credited, pool %d–%d", c.scraped[i], figure, c.credited[i], c.least, c.most)
}
