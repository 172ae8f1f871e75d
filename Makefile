# Pointsman. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS := $(CURDIR)/.tools
BIN := $(TOOLS)/bin
export PATH := $(BIN):$(PATH)
export GOFLAGS ?=

# Pinned tools. A change of version makes a new stamp, which installs it.
BUF := github.com/bufbuild/buf/cmd/buf@v1.75.0
PROTOC_GEN_GO := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PROTOC_GEN_GO_VTPROTO := github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.1-0.20240319094008-0393e58bdf10
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

MODULES := $(shell sed -n 's/^\t\.\/\(.*\)/\1/p' go.work)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# What binaries are linked with: their version, and how Go's runtime watches itself (docs/adr/0020-quiet-processes.md).
LDFLAGS = -X github.com/pointsman/pointsman/internal/kit/telemetry.buildVersion=$(VERSION) -X runtime.godebugDefault=schedtrace=2147483647

# The contract, of which scorers in other languages have a copy.
SCORER_PROTO := pointsman/scorer/v1/scorer.proto

# RACE=1 tests with the race detector; RUN=regexp chooses tests; PKG=pattern packages.
RACE ?=
RUN ?=
PKG ?=
TESTFLAGS = -count=1 -timeout 20m $(if $(RACE),-race) $(if $(RUN),-run '$(RUN)')
FUZZTIME ?= 10s
BENCH ?= .
# Whole-system tests in which our own processes do the work.
OURS = system redis kubernetes
# What builds images, and the registry and path they are named under.
DOCKER ?= docker
IMAGES ?= pointsman

.PHONY: help docs run run-pd run-envoy test race fuzz churn bench bench-scrape bench-pd bench-redis bench-record bench-extproc bench-scale bench-smoke lint fmt generate check tidy build images tools baseline \
	check-format check-proto check-generated check-tidy check-build check-layout

help: ## Show this.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: build ## Build, and run everything on this machine with 4 simulated model servers. ARGS="--servers 8" for more.
	@bin/pointsman up $(ARGS)

run-pd: build ## The same with prefill and decode apart: 2 servers prefill for 4, and decisions show both. ARGS as for run.
	@bin/pointsman up --servers 6 --prefill 2 $(ARGS)

run-envoy: build ## The same with Envoy in front, which is installed into .tools first. ARGS as for run.
	@test/setup/python.sh
	@deploy/envoy/run.sh $(ARGS)

build: ## Build all binaries into bin/.
	@mkdir -p bin
	@go build -ldflags "$(LDFLAGS)" -o bin/ \
		./cmd/pointsman ./services/router ./services/prefix-indexer ./services/metrics-collector ./services/scorer-kv ./services/scorer-queue ./services/disagg-sidecar ./sim/cmd/modelserver

images: ## Build the services' container images, IMAGES/<service>:VERSION and :latest. DOCKER=podman for another tool.
	@$(DOCKER) info >/dev/null 2>&1 || { echo "make images needs a container engine, and \"$(DOCKER) info\" does not reach one: start it, or name another tool, as in DOCKER=podman" >&2; exit 1; }
	@for s in $(notdir $(wildcard services/*)); do echo "$(IMAGES)/$$s:$(VERSION)"; \
		DOCKER_BUILDKIT=1 $(DOCKER) build --quiet --file services/$$s/Dockerfile --build-arg VERSION=$(VERSION) \
		--tag $(IMAGES)/$$s:$(VERSION) --tag $(IMAGES)/$$s:latest . || exit 1; done

test: ## Run all tests, whole-system ones included. RACE=1, RUN=regexp, PKG=./services/router/...
	@# The Kubernetes API server takes minutes to build, once: only for tests that start it.
	@test/setup/ready.sh $(if $(RACE),race,) $(if $(or $(if $(PKG),,all),$(findstring ./test,$(PKG))),kubernetes,)
ifeq ($(PKG),)
	@# A failure in one step does not hide those of the next. Whole systems have the machine to themselves. Where foreign
	@# programs do most of the work, the race detector would slow the rest down and find nothing more.
	@failed=; run() { echo "go test $$*"; go test "$$@" || failed=yes; }; \
	run $(TESTFLAGS) $(addsuffix /...,$(addprefix ./,$(filter-out test,$(MODULES)))); \
	run $(TESTFLAGS) -p 1 $(addprefix ./test/,$(OURS)); \
	run $(filter-out -race,$(TESTFLAGS)) -p 1 $$(go list ./test/... | grep -vE '/test/($(subst $() ,|,$(OURS)))$$'); \
	[ -z "$$failed" ]
else
	go test $(TESTFLAGS) $(PKG)
endif

race: ## Run all tests with the race detector.
	@$(MAKE) --no-print-directory test RACE=1

fuzz: ## Run every fuzz target for FUZZTIME (10s); FUZZDIR=./services/router/internal/prompt for one package.
	@test/setup/fuzz.sh $(FUZZTIME) $(FUZZDIR)

churn: ## The long runs of discovery against a real API server: 50 changed pods a second for 60 s, 30 s without the server.
	@test/setup/ready.sh kubernetes
	@CHURN=60s OUTAGE=30s go test -count=1 -timeout 15m -v -run 'TestFiveHundred|TestB086_a_watch|TestThreeCollectors' ./test/kubernetes 2>&1 | grep -E '^(=== RUN|---|ok|FAIL|    [a-z_]+\.go)'

bench: ## Run the benchmarks. BENCH=regexp, PKG=./internal/kit/roster for one package. Compare two runs with .tools/bin/benchstat.
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(or $(PKG),work)

bench-redis: ## Measure what picks and prefix look-ups cost a real redis-server, and what requests feel when it goes.
	@test/setup/ready.sh
	go test -run '^$$' -bench '^BenchmarkRedis' -benchmem ./internal/kit/counter ./services/prefix-indexer/...
	go test -run '^$$' -bench '^BenchmarkRedis' -benchtime 1x ./test/redis

bench-record: build ## Measure what a pick costs, in less than 10 minutes, into docs/bench/. ARGS="--endpoints 100 --env GOGC=400" for other cases.
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./bench
	@bin/bench record --out docs/bench --bin bin $(ARGS)

bench-extproc: build ## Measure what the router adds to Envoy, in 10 minutes, into docs/bench/.
	@test/setup/ready.sh
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./bench
	@bin/bench extproc --out docs/bench --bin bin $(ARGS)

bench-smoke: build ## The same in 2 minutes, held against limits that do not depend on the machine.
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./bench
	@bin/bench record --quick --bin bin $(ARGS)

bench-scale: build ## Measure what more routers, scorers and endpoints cost, in less than 8 minutes, into docs/bench/ and docs/scaling.md. ARGS="--rounds 1" for other runs.
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./bench
	@bin/bench scale --out docs/bench --page docs/scaling.md --bin bin $(ARGS)

bench-pd: ## What disaggregated prefill does to latencies, in virtual time: prints docs/bench/disaggregation.md, and writes it.
	@go test -count=1 -run '^TestPage$$' ./cmd/pointsman/internal/disaggregation -update >&2
	@cat docs/bench/disaggregation.md

bench-scrape: ## What it costs a collector to scrape 100 endpoints with pages of 58 KB every 50 ms.
	go test -ldflags "$(LDFLAGS)" -run '^$$' -bench '^BenchmarkHundredEndpoints$$' -benchtime 1x ./services/metrics-collector/app

lint: $(BIN)/.golangci-lint ## Lint the Go code.
	@golangci-lint run $$(go list -m -f '{{.Dir}}/...')

fmt: $(BIN)/.golangci-lint $(BIN)/.buf ## Format Go and proto files.
	@buf format -w
	@golangci-lint fmt $$(go list -m -f '{{.Dir}}/...')

generate: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc $(BIN)/.protoc-gen-go-vtproto ## Generate code from the proto files.
	@tmp=$$(mktemp -d -p $(TOOLS)); trap 'rm -rf "$$tmp"' EXIT; buf generate -o "$$tmp"; rm -rf proto/gen; mv "$$tmp/proto/gen" proto/gen
	@for e in typescript python; do cp proto/$(SCORER_PROTO) examples/scorer-$$e/proto/$(SCORER_PROTO); done
	@test/setup/examples.sh; cd examples/scorer-python && $(TOOLS)/venv-scorer-python/bin/python -m grpc_tools.protoc -I proto --python_out=gen --grpc_python_out=gen $(SCORER_PROTO)

docs: ## Write docs/configuration.md from the code.
	go test -count=1 -run '^TestPageIsUpToDate$$' ./cmd/pointsman/internal/reference -update

baseline: $(BIN)/.buf ## Accept the contract as it is now: later breaking changes are found against it.
	@buf build -o proto/baseline.binpb

check: check-format check-proto check-generated check-tidy check-build lint ## Check all that can be checked without running anything.

check-format: $(BIN)/.golangci-lint $(BIN)/.buf
	@buf format --diff --exit-code
	@bad=$$(gofmt -l $(MODULES)); [ -z "$$bad" ] || { echo "not formatted (make fmt): $$bad"; exit 1; }

check-proto: $(BIN)/.buf
	@buf lint
	@buf breaking --against proto/baseline.binpb

check-generated: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc $(BIN)/.protoc-gen-go-vtproto
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	buf generate -o "$$tmp"; \
	diff -r "$$tmp/proto/gen" proto/gen || { echo "generated code is not up to date: make generate"; exit 1; }

check-tidy:
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "$$m/go.mod is not tidy: make tidy"; exit 1; }; done

check-build:
	@for m in $(MODULES); do echo "GOWORK=off go build ($$m)"; (cd $$m && GOWORK=off go build ./...) || exit 1; done

tidy: ## Tidy every go.mod.
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

tools: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc $(BIN)/.protoc-gen-go-vtproto $(BIN)/.golangci-lint $(BIN)/.benchstat ## Install the pinned tools into .tools/bin.

# install NAME MODULE@VERSION: the stamp holds the version, so that a new one is installed.
define install
$(BIN)/.$(1): Makefile
	@if [ "$$$$(cat $$@ 2>/dev/null)" != "$(2)" ] || [ ! -x $(BIN)/$(1) ]; then \
		echo "installing $(2)"; mkdir -p $(BIN); GOWORK=off GOBIN=$(BIN) go install $(2); echo "$(2)" > $$@; fi; touch $$@
endef
$(eval $(call install,buf,$(BUF)))
$(eval $(call install,protoc-gen-go,$(PROTOC_GEN_GO)))
$(eval $(call install,protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC)))
$(eval $(call install,protoc-gen-go-vtproto,$(PROTOC_GEN_GO_VTPROTO)))
$(eval $(call install,golangci-lint,$(GOLANGCI_LINT)))
$(eval $(call install,benchstat,$(BENCHSTAT)))
