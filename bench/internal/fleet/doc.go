// Package fleet is many fake model servers in one process: each has an address of its
// own on the loopback, a metrics page, a list of models, and one answer to every chat
// request. They compute nothing, so that what is measured is who asks them.
package fleet
