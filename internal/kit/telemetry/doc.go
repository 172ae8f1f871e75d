// Package telemetry is how a Pointsman service shows what it does: a structured log on stderr, metrics, traces, health,
// and one admin port with all of them.
//
// Admin pages (plain HTTP, admin.address):
//
//	/metrics        Prometheus text; instruments appear under exactly the name they were created with
//	/healthz        200 as long as the process answers
//	/readyz         200 when all checks of Health are ok, else 503 with one reason a line; then what the service does without
//	/buildinfo      service, version, revision and Go version as JSON
//	/instruments    every metric of the service, also those without a value yet: name, kind, description
//	/debug/pprof/   profiles; on a loopback address, or where admin.pprof says so
//
// It promises:
//   - nothing global: no default registry, no otel.SetX, so several services can live in one process;
//   - New starts nothing and opens nothing; Part does, and at the end it flushes what is not exported yet;
//   - an exporter that cannot reach its collector never blocks a request; its failures are logged when they begin and
//     end, and counted in pointsman_telemetry_export_errors_total.
//
// It does not trace or count calls by itself: that costs more than the calls of this system do (see package rpc), so each
// service records what it knows, where it knows it.
//
// Naming: create instruments under their final Prometheus name, "pointsman_<service>_<noun>_<unit>", counters with
// "_total". No suffix is added to any name. Histograms get [SecondsBuckets] unless they are created with
// metric.WithExplicitBucketBoundaries, which every histogram of another unit needs. Label sets must be small
// and known beforehand; above 20,000 series of one instrument the rest is summed up in one overflow series.
package telemetry
