package deploy

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// combined returns where a configuration of an ext_proc filter lets requests pass without
// the picker although bodies go to it in full duplex, of which the proxy keeps no copy.
// open and mode are the field names of Envoy and of Envoy Gateway.
func combined(n *yaml.Node) (lines []int) {
	if n.Kind == yaml.MappingNode {
		open, duplex := 0, false
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			if (key == "failure_mode_allow" || key == "failOpen") && value.Value == "true" {
				open = value.Line
			}
			duplex = duplex || (key == "processing_mode" || key == "processingMode") && inFullDuplex(value)
		}
		if open > 0 && duplex {
			lines = append(lines, open)
		}
	}
	for _, c := range n.Content {
		lines = append(lines, combined(c)...)
	}
	return lines
}

func inFullDuplex(n *yaml.Node) bool {
	if n.Value == "FULL_DUPLEX_STREAMED" || n.Value == "FullDuplexStreamed" {
		return true
	}
	for _, c := range n.Content {
		if inFullDuplex(c) {
			return true
		}
	}
	return false
}

func combinedIn(text []byte) (lines []int, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, err
		}
		lines = append(lines, combined(&doc)...)
	}
}

// B122: no configuration that is given out lets requests pass without the picker while
// their bodies are in full duplex. What Envoy does in an outage stands beside the setting.
func TestB122FailOpenIsNotCombinedWithFullDuplex(t *testing.T) {
	for name, text := range map[string]string{
		"Envoy":         "a:\n- failure_mode_allow: true\n  processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED}\n",
		"Envoy Gateway": "extProc:\n- failOpen: true\n  processingMode: {request: {body: FullDuplexStreamed}}\n",
	} {
		if lines, err := combinedIn([]byte(text)); err != nil || len(lines) != 1 {
			t.Errorf("%s: found %v, error %v: the test shows nothing", name, lines, err)
		}
	}
	for name, text := range map[string]string{
		"buffered": "failure_mode_allow: true\nprocessing_mode: {request_body_mode: BUFFERED}\n",
		"closed":   "failure_mode_allow: false\nprocessing_mode: {request_body_mode: FULL_DUPLEX_STREAMED}\n",
	} {
		if lines, err := combinedIn([]byte(text)); err != nil || len(lines) != 0 {
			t.Errorf("%s: found %v, error %v", name, lines, err)
		}
	}
	files, planned := 0, false
	err := filepath.WalkDir(filepath.Join("..", "..", "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		planned = planned || strings.Contains(string(text), "failure_mode_allow: false")
		lines, err := combinedIn(text)
		if err != nil {
			return err
		}
		for _, line := range lines {
			t.Errorf("%s:%d fails open in full duplex", path, line)
		}
		return nil
	})
	if err != nil || files < 5 || !planned {
		t.Errorf("%d files, one of an ext_proc filter %t, error %v", files, planned, err)
	}
}
