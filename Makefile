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
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

MODULES := $(shell sed -n 's/^\t\.\/\(.*\)/\1/p' go.work)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# RACE=1 tests with the race detector; RUN=regexp chooses tests; PKG=pattern packages.
RACE ?=
RUN ?=
PKG ?=
TESTFLAGS = -count=1 -timeout 20m $(if $(RACE),-race) $(if $(RUN),-run '$(RUN)')
FUZZTIME ?= 10s
BENCH ?= .
# What builds images, and the registry and path they are named under.
DOCKER ?= docker
IMAGES ?= pointsman

.PHONY: help docs run test race fuzz bench lint fmt generate check tidy build images tools baseline \
	check-format check-proto check-generated check-tidy check-build check-layout

help: ## Show this.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: build ## Build, and run everything on this machine with 4 simulated model servers. ARGS="--servers 8" for more.
	@bin/pointsman up $(ARGS)

build: ## Build all binaries into bin/.
	@mkdir -p bin
	@go build -ldflags "-X github.com/pointsman/pointsman/internal/kit/telemetry.buildVersion=$(VERSION)" -o bin/ \
		./cmd/pointsman ./services/router ./services/prefix-indexer ./services/metrics-collector ./services/scorer-kv ./services/scorer-queue ./sim/cmd/modelserver

images: ## Build the services' container images, IMAGES/<service>:VERSION and :latest. DOCKER=podman for another tool.
	@$(DOCKER) info >/dev/null 2>&1 || { echo "make images needs a container engine, and \"$(DOCKER) info\" does not reach one: start it, or name another tool, as in DOCKER=podman" >&2; exit 1; }
	@for s in $(notdir $(wildcard services/*)); do echo "$(IMAGES)/$$s:$(VERSION)"; \
		DOCKER_BUILDKIT=1 $(DOCKER) build --quiet --file services/$$s/Dockerfile --build-arg VERSION=$(VERSION) \
		--tag $(IMAGES)/$$s:$(VERSION) --tag $(IMAGES)/$$s:latest . || exit 1; done

test: ## Run all tests, whole-system ones included. RACE=1, RUN=regexp, PKG=./services/router/...
	@test/setup/ready.sh $(if $(RACE),race,)
ifeq ($(PKG),)
	go test $(TESTFLAGS) $(addsuffix /...,$(addprefix ./,$(filter-out test,$(MODULES))))
	@# Whole systems have the machine to themselves.
	go test $(TESTFLAGS) -p 1 ./test/...
else
	go test $(TESTFLAGS) $(PKG)
endif

race: ## Run all tests with the race detector.
	@$(MAKE) --no-print-directory test RACE=1

fuzz: ## Run every fuzz target for FUZZTIME (10s); FUZZDIR=./services/router/internal/prompt for one package.
	@test/setup/fuzz.sh $(FUZZTIME) $(FUZZDIR)

bench: ## Run the benchmarks. BENCH=regexp, PKG=./internal/kit/roster for one package. Compare two runs with .tools/bin/benchstat.
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(or $(PKG),work)

lint: $(BIN)/.golangci-lint ## Lint the Go code.
	@golangci-lint run $$(go list -m -f '{{.Dir}}/...')

fmt: $(BIN)/.golangci-lint $(BIN)/.buf ## Format Go and proto files.
	@buf format -w
	@golangci-lint fmt $$(go list -m -f '{{.Dir}}/...')

generate: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc ## Generate code from the proto files.
	@rm -rf proto/gen
	@buf generate

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

check-generated: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	buf generate -o "$$tmp"; \
	diff -r "$$tmp/proto/gen" proto/gen || { echo "generated code is not up to date: make generate"; exit 1; }

check-tidy:
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "$$m/go.mod is not tidy: make tidy"; exit 1; }; done

check-build:
	go vet work
	@for m in $(MODULES); do echo "GOWORK=off go build ($$m)"; (cd $$m && GOWORK=off go build ./...) || exit 1; done

tidy: ## Tidy every go.mod.
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

tools: $(BIN)/.buf $(BIN)/.protoc-gen-go $(BIN)/.protoc-gen-go-grpc $(BIN)/.golangci-lint $(BIN)/.benchstat ## Install the pinned tools into .tools/bin.

# install NAME MODULE@VERSION: the stamp holds the version, so that a new one is installed.
define install
$(BIN)/.$(1): Makefile
	@if [ "$$$$(cat $$@ 2>/dev/null)" != "$(2)" ] || [ ! -x $(BIN)/$(1) ]; then \
		echo "installing $(2)"; mkdir -p $(BIN); GOWORK=off GOBIN=$(BIN) go install $(2); echo "$(2)" > $$@; fi; touch $$@
endef
$(eval $(call install,buf,$(BUF)))
$(eval $(call install,protoc-gen-go,$(PROTOC_GEN_GO)))
$(eval $(call install,protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC)))
$(eval $(call install,golangci-lint,$(GOLANGCI_LINT)))
$(eval $(call install,benchstat,$(BENCHSTAT)))
