// Package epconfig loads an EndpointPickerConfig: the Inference Gateway's text of
// plug-ins and scheduling profiles, as YAML or JSON, and makes a route.Config of it.
//
// It promises that a text which loads says what will happen: an unknown field, type,
// parameter or reference is an error, whatever is filled in or has no effect is
// said, and Loaded.Effective is the configuration with nothing left out, the defaults
// of scorers included, as far as those tell. All faults
// of a text are reported at once, each with its line and column and with what was
// probably meant.
//
// Filters, pickers and profile handlers are made from a Registry, which is a value
// and also what reference pages are written from. Scorers are services: their types
// and parameters are resolved through the Scorers interface, to which parameters are
// handed on as they stand.
//
// It reads no files and watches none, and it keeps nothing between loads.
package epconfig
