# `make help` lists what there is. Everything also runs without make: the recipes
# are ordinary commands.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Run by path and version, so that neither tool enters go.mod.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The root module, and the examples in theirs.
MODULES := . $(patsubst %/go.mod,%,$(wildcard examples/go.mod))

# And the benches against others, which are built and checked but not run with the tests.
ALL_MODULES := $(MODULES) internal/peers

# What `make test-matrix` runs on, beside the default. Set it for others.
MATRIX ?= redis:7.0 redis:8.0 valkey/valkey:8.1

# How long make fuzz gives each of its targets.
FUZZTIME ?= 30s

# How long make chaos breaks things, at least two rounds of about a minute.
DUR ?= 3m

# More flags for go test, e.g. make test TESTFLAGS='-run Upgrade -v'.
TESTFLAGS ?=

# Race-enabled tests of all packages: some wait for real leases, none for long.
GOTEST := go test -race -count=1 -timeout 30m

define each-of
	@for module in $(1); do \
		echo "== $$module: $(2)"; \
		(cd $$module && $(2)); \
	done
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## compile everything, tests too
	$(call each-of,$(ALL_MODULES),go build -o /dev/null ./... && go vet ./...)

.PHONY: setup
setup: ## install a Redis for the tests where there is none
	@.ci/setup

.PHONY: test
test: setup ## all tests of both modules on a real Redis, with the race detector
	$(call each-of,$(MODULES),$(GOTEST) $(TESTFLAGS) ./...)

.PHONY: race
race: setup ## the root module's tests 20 times, with the race detector
	go test -race -count=20 -timeout 60m $(TESTFLAGS) ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s each), as many at a time as there are cores
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		sed -n "s|^func \\(Fuzz[A-Za-z0-9]*\\)(.*|$$(dirname $$file) \\1|p" $$file; \
	done | GOMAXPROCS=1 xargs -P "$$(nproc)" -n 2 sh -c 'echo "== $$0 $$1"; \
		exec go test -run "^$$" -fuzz "^$$1$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$0"'

.PHONY: chaos
chaos: setup ## four processes, a fault a second, everything checked (DUR=3m)
	REDISTEST=binary CHAOS_DUR=$(DUR) go test -race -count=1 -timeout 0 -v -run '^TestChaos$$' ./internal/chaos

.PHONY: gap
gap: setup ## measure the next holder's distance, here and in peers, into docs/correctness.md
	cd internal/peers && GAP_DOC=../../docs/correctness.md REDISTEST=binary go test -count=1 -timeout 20m -run '^TestGap$$' $(TESTFLAGS) .

.PHONY: faults
faults: setup ## the connection cut at every byte, silent at every step; 400 sequences on three ports
	LOCKSERVICE_FAULTS=all go test -count=1 -timeout 20m -v -run 'TestConnectionCutAtEachByte|TestNetworkSilentAtEachStep' $(TESTFLAGS) ./lockservice | grep -v '^==='
	CONFORM_SEEDS=200 go test -count=1 -timeout 20m $(TESTFLAGS) ./internal/conform

.PHONY: lint
lint: ## golangci-lint in its pinned version (the first run compiles it)
	$(call each-of,$(ALL_MODULES),go run $(GOLANGCI_LINT) run ./...)

.PHONY: fmt-check
fmt-check: ## fail if a file isn't formatted by gofmt
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change go.mod or go.sum
	$(call each-of,$(ALL_MODULES),go mod tidy -diff)

# How many schedules `make sim` explores, from which seed, and how many it runs twice.
SEEDS ?= 200000
FROM ?= 0
TWICE ?= 1000

# One process for each core, and one goroutine at a time in it. Nothing of a run is
# interrupted in the middle: the same seed has to be the same run.
.PHONY: sim
sim: ## explore SEEDS (200000) simulated schedules from seed FROM (0); TWICE (1000) of them are run again
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	go test -c -o "$$dir/sim" ./lockservice; cd lockservice; \
	cores=$$(nproc); each=$$(( ($(SEEDS) + cores - 1) / cores )); pids=; failed=0; \
	for i in $$(seq 0 $$((cores - 1))); do \
		GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 "$$dir/sim" -test.run '^(TestSimulatedServices|TestSameSeedIsTheSameRun)$$' -test.v -test.timeout 24h \
			-sim.seeds $$each -sim.from $$(( $(FROM) + i * each )) -sim.pairs $$(( ($(TWICE) + cores - 1) / cores )) & pids="$$pids $$!"; \
	done; \
	for pid in $$pids; do wait $$pid || failed=1; done; exit $$failed

.PHONY: mutants
mutants: ## put deliberate mistakes into the code: a test or the simulation has to find each; the table goes into docs/correctness.md
	go test -tags mutants -count=1 -timeout 90m -run '^TestEveryMutantIsKilled$$' -v $(TESTFLAGS) ./internal/sim -args -mutants.doc ../../docs/correctness.md

.PHONY: bench
bench: setup ## benchmarks against a real Redis
	go test -run '^$$' -bench . -benchmem -timeout 20m $(TESTFLAGS) ./lockservice/...

.PHONY: bench-peers
bench-peers: setup ## measure this library against others, into docs/benchmarks.md (SHORT=1: about a minute, only printed)
	cd internal/peers && go run ./benchpeers $(if $(SHORT),-short,-doc ../../docs/benchmarks.md -json ../../docs/benchmarks/peers.json) $(BENCHFLAGS)

.PHONY: bench-growth
bench-growth: setup ## measure what grows with what, into docs/benchmarks (SHORT=1: only printed)
	cd internal/peers && go run ./benchgrowth $(if $(SHORT),-short,-dir ../../docs/benchmarks -doc ../../docs/benchmarks.md) $(BENCHFLAGS)

.PHONY: demo
demo: ## two services compete for three locks (REDIS_URL, else an embedded server)
	cd examples && go run ./quickstart

.PHONY: test-matrix
test-matrix: setup ## the conformance tests on Redis 7.0, Redis 8.0 and Valkey 8.1 (needs Docker)
	@for image in $(MATRIX); do \
		echo "== $$image"; \
		REDISTEST=docker REDIS_IMAGE=$$image go test -race -count=1 -timeout 10m -run Conformance $(TESTFLAGS) ./lockservice/...; \
	done
