package httpproxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/roster"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

const modelsPath = "/v1/models"

// model is one entry of the list of models.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// models answers for the list of models and for one of them from the roster. It
// leaves it to an endpoint if no endpoint's models are known.
func (x *exchange) models(path string) (done bool, f *edge.Refusal) {
	rest, ok := strings.CutPrefix(path, modelsPath)
	if !ok || rest != "" && rest[0] != '/' || x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return false, nil
	}
	names := modelNames(x.p.roster.Snapshot().Table)
	if len(names) == 0 {
		return false, nil
	}
	name := strings.TrimPrefix(rest, "/")
	if name != "" {
		if _, found := slices.BinarySearch(names, name); !found {
			return false, &edge.Refusal{
				Status: http.StatusNotFound, Reason: edge.ModelNotFound, Param: "model",
				Message: "the model " + strconv.Quote(name) + " does not exist",
			}
		}
		return true, x.json(x.p.model(name))
	}
	list := modelList{Object: "list", Data: make([]model, 0, len(names))}
	for _, n := range names {
		list.Data = append(list.Data, x.p.model(n))
	}
	return true, x.json(list)
}

func (p *Proxy) model(name string) model {
	return model{ID: name, Object: "model", Created: p.created, OwnedBy: "pointsman"}
}

// modelNames returns the models of all endpoints, ascending.
func modelNames(t *roster.Table) []string {
	var names []string
	for i := range t.Endpoints {
		names = append(names, t.Endpoints[i].Models...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (x *exchange) json(v any) *edge.Refusal {
	body, err := json.Marshal(v)
	if err != nil {
		return &edge.Refusal{Status: http.StatusInternalServerError, Reason: edge.Internal, Message: "internal error"}
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.status, x.why = http.StatusOK, edge.OK
	x.w.WriteHeader(http.StatusOK)
	n, _ := x.w.Write(body)
	x.sent += int64(n)
	return nil
}
