// Package conf reads a service's configuration: a YAML file, then --set overrides, into a struct that was filled with
// defaults, and then that struct's own Validate.
//
// It is strict, because a mistyped key that is silently ignored is a setting that silently does not hold. It promises:
//   - an unknown key, a key given twice, a value of the wrong type and a second document are errors;
//   - all faults are reported at once, one per line, each with file:line:column (or "--set"), the key and what to
//     do, in plain words: "router.yaml:3:1: pol: unknown key; did you mean pool?";
//   - what Validate returns gets the same treatment: a fault that begins with a key is shown with the place of that key;
//   - a value of type [Secret] is never printed.
//
// How YAML meets Go: keys are the `yaml` tags (lower-cased field name without one); `yaml:",inline"` works; structs and
// maps are merged into what is there, lists replace it; an empty value ("key:") leaves a section as it is, empties a
// list or map, and is an error for anything else; encoding.TextUnmarshaler and yaml.Unmarshaler are honoured;
// anchors, aliases and merge keys are.
//
// It does not read environment variables, expand templates, or watch files.
package conf
