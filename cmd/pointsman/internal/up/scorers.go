package up

import (
	"encoding/json"
	"os"

	yaml "go.yaml.in/yaml/v3"
)

// settings is what is read of the router's own settings file.
type settings struct {
	Pool    string           `yaml:"pool"` // empty: not given
	Scorers []map[string]any `yaml:"scorers"`
}

// read returns the settings in a file, none if there is no file, or one that is not
// understood.
func read(file string) (s settings) {
	if file == "" {
		return settings{}
	}
	if text, err := os.ReadFile(file); err != nil || yaml.Unmarshal(text, &s) != nil {
		return settings{}
	}
	return s
}

// scorers is the list of scorers that a router is given: the built-in ones at their
// addresses, with whatever else the router's own settings file says of them, and all
// others of that file as they stand there. A file that cannot be read is left to the
// router, which says where it is wrong.
func scorers(file string, names []string, target func(name string) string) string {
	settings := read(file)
	var list []map[string]any
	for _, name := range names {
		list = append(list, map[string]any{"name": name, "target": target(name)})
	}
	for _, s := range settings.Scorers {
		own := false
		for i, name := range names {
			if s["name"] == name {
				own = true
				for key, value := range s {
					list[i][key] = value // the target too: whoever gives one means it
				}
			}
		}
		if !own {
			list = append(list, s)
		}
	}
	text, err := json.Marshal(list) // which YAML can read
	if err != nil {                 // keys that are no strings: the file is wrong
		return scorers("", names, target)
	}
	return string(text)
}
