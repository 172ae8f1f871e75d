package page

import "strconv"

// vllmLarge adds families of vLLM that the plain page leaves out.
func (b *builder) vllmLarge(labels []string) {
	b.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", labels,
		func(f *Figures) uint64 { return f.Stats.Preemptions })
	b.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", labels,
		func(d *Distributions) *Histogram { return d.Queue })
	b.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", nil,
		func(f *Figures) float64 { return f.Created })
}

// Route is one route of vLLM's HTTP server.
type Route struct {
	Method, Path string
}

// Routes returns the routes that a large page has figures of. The last one stands for all others.
func Routes() []Route {
	return []Route{
		{"POST", "/v1/chat/completions"}, {"POST", "/v1/completions"}, {"POST", "/v1/embeddings"}, {"GET", "/v1/models"},
		{"POST", "/tokenize"}, {"GET", "/health"}, {"GET", "/metrics"}, {"POST", "/detokenize"}, {"GET", "/load"},
		{"GET", "/ping"}, {"POST", "/ping"}, {"GET", "/version"}, {"POST", "/v1/responses"}, {"GET", "/v1/responses/{response_id}"},
		{"POST", "/v1/messages"}, {"POST", "/pooling"}, {"POST", "/classify"}, {"POST", "/score"},
		{"POST", "/v1/audio/transcriptions"}, {"POST", "/rerank"}, {"POST", "/v1/rerank"}, {"POST", "/reset_prefix_cache"},
		{"POST", "/v1/load_lora_adapter"}, {"POST", "/v1/unload_lora_adapter"}, {"GET", "none"},
	}
}

// RouteFigures are what the HTTP server counted of one route.
type RouteFigures struct {
	// Requests by the first digit of their status, 2 to 5, at index 0 to 3.
	Requests [4]uint64
	// Buckets counts durations up to 0.1, 0.5, 1 and any number of seconds, not cumulative; Seconds is their sum.
	Buckets [4]uint64
	Seconds float64
	// RequestBytes and ResponseBytes are the sums of the bodies' lengths.
	RequestBytes, ResponseBytes uint64
}

// Observe counts one request.
func (r *RouteFigures) Observe(status int, seconds float64, requestBytes, responseBytes uint64) {
	r.Requests[min(max(status/100-2, 0), 3)]++
	switch {
	case seconds <= 0.1:
		r.Buckets[0]++
	case seconds <= 0.5:
		r.Buckets[1]++
	case seconds <= 1:
		r.Buckets[2]++
	default:
		r.Buckets[3]++
	}
	r.Seconds += seconds
	r.RequestBytes += requestBytes
	r.ResponseBytes += responseBytes
}

func (r *RouteFigures) count() uint64 {
	return r.Requests[0] + r.Requests[1] + r.Requests[2] + r.Requests[3]
}

// http adds the families of the HTTP server's instrumentation.
func (b *builder) http() {
	b.routes("http_requests_total", "counter", "Total number of requests by method, status and handler.",
		func(r Route) func([]byte, *RouteFigures) []byte {
			var begins [4]string
			for i := range begins {
				begins[i] = series("http_requests_total", "handler", r.Path, "method", r.Method, "status", strconv.Itoa(2+i)+"xx")
			}
			return func(dst []byte, f *RouteFigures) []byte {
				for i, begin := range begins {
					if i == 0 || f.Requests[i] > 0 { // a failure that never was has no sample
						dst = appendCount(dst, begin, f.Requests[i])
					}
				}
				return dst
			}
		})
	b.routes("http_request_duration_seconds", "histogram", "Duration of HTTP requests in seconds.",
		func(r Route) func([]byte, *RouteFigures) []byte {
			lines := newHistogramLines("http_request_duration_seconds", []string{"handler", r.Path, "method", r.Method}, []float64{0.1, 0.5, 1})
			return func(dst []byte, f *RouteFigures) []byte {
				return lines.append(dst, &Histogram{counts: f.Buckets[:], sum: f.Seconds, count: f.count()})
			}
		})
	b.summary("http_request_size_bytes", "Content length of incoming requests by handler.", func(f *RouteFigures) uint64 { return f.RequestBytes })
	b.summary("http_response_size_bytes", "Content length of outgoing responses by handler.", func(f *RouteFigures) uint64 { return f.ResponseBytes })
}

func (b *builder) summary(name, help string, sum func(*RouteFigures) uint64) {
	b.routes(name, "summary", help, func(r Route) func([]byte, *RouteFigures) []byte {
		count, total := series(name+"_count", "handler", r.Path, "method", r.Method), series(name+"_sum", "handler", r.Path, "method", r.Method)
		return func(dst []byte, f *RouteFigures) []byte {
			return appendCount(appendCount(dst, count, f.count()), total, sum(f))
		}
	})
}

// routes adds a family that has samples of every route.
func (b *builder) routes(name, kind, help string, of func(Route) func([]byte, *RouteFigures) []byte) {
	routes := Routes()
	writers := make([]func([]byte, *RouteFigures) []byte, len(routes))
	for i, r := range routes {
		writers[i] = of(r)
	}
	b.add(name, kind, help, func(dst []byte, f *Figures) []byte {
		var idle RouteFigures
		for i, write := range writers {
			if i < len(f.Routes) {
				dst = write(dst, &f.Routes[i])
			} else {
				dst = write(dst, &idle)
			}
		}
		return dst
	})
}
