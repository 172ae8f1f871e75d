// Package reference says what can be configured: the plug-in types of the router and
// of the scorer services with their parameters, as paragraphs, as a reference page and
// as a JSON Schema.
//
// It promises that whatever the router or a first-party scorer service offers appears
// here by itself, in their own words: only where a type's name comes from
// is listed by hand. Services need not run.
package reference
