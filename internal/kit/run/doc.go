// Package run is the life cycle of a Pointsman service: from main's first line to a clean stop.
//
// A service's main is one line,
//
//	func main() { os.Exit(run.Main("scorer-queue", app.Run)) }
//
// and its app.Run builds parts (an admin server, a bus, a gRPC server) and hands them to a [Group].
//
// It promises:
//   - SIGINT and SIGTERM cancel the context; a second signal ends the process at once;
//   - an error is one line on stderr per fault, each prefixed with the service's name, and never a stack;
//   - parts start in the order added, each when the one before is ready, and stop in reverse order, so a part may use
//     every part added before it for as long as it runs;
//   - a part that panics or ends by itself stops the group with an error that names it;
//   - Group.Run leaves no goroutine behind, unless a part ignores its context for longer than StopTimeout, which is
//     logged and returned as an error.
//
// It does not restart parts, knows no flags and reads no configuration.
package run
