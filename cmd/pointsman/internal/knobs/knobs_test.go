package knobs_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/knobs"
	"github.com/pointsman/pointsman/cmd/pointsman/internal/knobs/knobstest"
)

func list(t *testing.T, v any, fold map[reflect.Type]string) ([]knobs.Knob, error) {
	t.Helper()
	l := &knobs.Lister{Comments: knobs.NewComments(filepath.Join("..", "..", "..", ".."), "github.com/pointsman/pointsman"), Fold: fold}
	return l.List(v)
}

func TestList(t *testing.T) {
	got, err := list(t, knobstest.Defaults(), map[reflect.Type]string{reflect.TypeFor[knobstest.Folded](): "Elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	want := []knobs.Knob{
		{Key: "wait", Kind: "duration", Default: "2s", Comment: "How long to wait. Default 2 s."},
		{Key: "name", Kind: "text", Comment: "Name on the page, which may be long. Default none."},
		{Key: "user", Kind: "text", Comment: "User and Password, if asked for."},
		{Key: "password", Kind: "secret text", Comment: "User and Password, if asked for."},
		{Key: "flag", Kind: "true or false", Comment: "Flag turns it on."},
		{Key: "codes", Kind: "list of whole numbers", Default: "[500, 502]", Comment: "Codes that count."},
		{Key: "labels", Kind: "map of texts", Comment: "Labels are told."},
		{Key: "items", Kind: "list", Comment: "Items of the list."},
		{Key: "items[].port", Kind: "whole number", Comment: "Port of the item."},
		{Key: "items[].part.share", Kind: "number", Comment: "Share of the whole."},
		{Key: "part", Comment: "Part is on when it is set.", As: "items[].part"},
		{Key: "folded", Comment: "Folded is elsewhere.", See: "Elsewhere"},
		{Key: "inner", See: "Elsewhere"},
	}
	for i := range want {
		if want[i].Key == "labels" {
			want[i].Comment = "Told."
		}
		if want[i].Key == "folded" {
			want[i].Comment = "Elsewhere."
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A knob that nobody has described is an error.
func TestKnobWithoutAComment(t *testing.T) {
	_, err := list(t, knobstest.Undescribed{Wait: time.Second}, nil)
	if err == nil || !strings.Contains(err.Error(), "Undescribed.Wait has no comment") {
		t.Errorf("error %v", err)
	}
	_, err = list(t, struct {
		A int `yaml:"a"`
	}{}, nil)
	if err == nil || !strings.Contains(err.Error(), "is not in") {
		t.Errorf("error %v", err)
	}
}
