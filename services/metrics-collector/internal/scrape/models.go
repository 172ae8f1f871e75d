package scrape

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

const (
	// maxModels and maxModelName bound what is taken from a list of models.
	maxModels    = 1024
	maxModelName = 256
	maxListBytes = 4 << 20
)

// parseModels returns the ids in an OpenAI list of models, ascending. vLLM lists
// adapters as models with a parent; they are asked for by their own ids, so they count.
func parseModels(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list of models: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New("list of models: the answer has no data")
	}
	ids := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" && len(m.ID) <= maxModelName && len(ids) < maxModels {
			ids = append(ids, m.ID)
		}
	}
	return distinct(ids), nil
}

// union returns the names of both, ascending. Either may be returned itself.
func union(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return distinct(slices.Concat(a, b))
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
