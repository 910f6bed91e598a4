# Everything here needs Go, gcc, git and make; tools are pinned in go.mod.

SHELL = bash
.SHELLFLAGS = -euo pipefail -c
.DEFAULT_GOAL = help
MAKEFLAGS += --no-print-directory

# make test PKG=./cellstate/...
PKG ?= ./...
# The race detector is slow, and tests share two cores with an etcd each.
TESTFLAGS ?= -race -timeout 15m -p 2
# Flags of hack/testtotals; .ci/run is stricter about what is skipped.
TOTALSFLAGS ?=
BENCHFLAGS ?= -benchtime 200ms -count 6
# make robust DURATION=10m SEED=7: how long faults come at least, judging aside; the order of
# the faults, by default another one each time. ROBUSTFLAGS="-fault 'watch cut'": only that.
# make chaos takes both, too.
DURATION ?= $(if $(filter chaos,$(MAKECMDGOALS)),80s,90s)
SEED ?=
ROBUSTFLAGS ?=
# make scale: of simulated nodes.
NODES ?= 5000

.PHONY: help build test verify generate format vet lint architecture generated bench bench-packing bench-packages robust scale chaos demo demo-service demo-pipeline clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/ohm, the one binary, and bin/ohm-init, which the containerd driver puts into containers
	go build -o bin/ohm ./cmd/ohm
	CGO_ENABLED=0 go build -ldflags='-s -w' -o bin/ohm-init ./cmd/ohm-init

test: ## all tests with the race detector, and their totals (PKG=./some/package for some)
	@mkdir -p bin && go build -o bin/testtotals ./hack/testtotals
	@go test -json $(TESTFLAGS) $(PKG) | bin/testtotals $(TOTALSFLAGS)

verify: ## format, vet, lint, generated files, architecture: all of them, even if one fails
	@$(MAKE) -k format vet lint generated architecture

format:
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:" >&2; echo "$$unformatted" >&2; exit 1; fi

vet:
	go vet ./...
	GOOS=darwin go vet ./cmd/ohm

lint:
	go tool staticcheck ./...

generated:
	hack/verify-generated.sh

architecture:
	go test -count=1 -run 'Architecture|HouseRules|Documents' ./hack

generate: ## the code of proto/, docs/cli and docs/job-file.md
	hack/generate.sh

bench: build ## what a cell can do on this machine: every row for some seconds, and one table
	bin/ohm bench all

bench-packing: build ## Ohm's choice of nodes beside first fit, best fit, FGD and others on the trace openb in $$OHM_TRACES
	bin/ohm bench packing

bench-packages: ## the packages' own benchmarks, for benchstat (PKG=./some/package for some; BENCHFLAGS)
	go test -run '^$$' -bench . -benchmem $(BENCHFLAGS) $(PKG) | grep -Ev '^(PASS|ok|\?)'

robust: ## a cell whose etcd, schedulers, servers and connections fail, and what its promises are worth then (DURATION, SEED)
	@mkdir -p bin && go build -o bin/robust ./cellstate/robustness/robust
	@bin/robust -dir bin/robust-report -duration $(DURATION) $(if $(SEED),-seed $(SEED)) $(ROBUSTFLAGS)
	@rm -rf bin/robust-report # what fails leaves it

chaos: build ## tasks on native and containerd while agents and containerd are killed with -9: none doubled, lost, leaked (DURATION, SEED; needs root)
	@CGO_ENABLED=0 go build -o bin/chaos ./agent/chaos/chaos
	@bin/chaos -ohm bin/ohm -dir bin/chaos-report -duration $(DURATION) $(if $(SEED),-seed $(SEED))
	@rm -rf bin/chaos-report # what fails leaves it

scale: ## 5,000 simulated nodes on real sessions, and all their tasks end at once (make test has 500; NODES=…)
	E2E_SCALE_NODES=$(NODES) go test -count=1 -v -timeout 20m -run 'TestScale$$' ./e2e

demo: build ## a cell on this machine, a job of each kind, a race, and a clean end
	hack/demo/first.sh

demo-service: build ## a service whose second version is well, and whose third one goes back by itself
	hack/demo/service.sh

demo-pipeline: build ## an array with bad elements, a step and a gang that follow it, and a job by a schedule
	hack/demo/pipeline.sh

clean: ## remove what was built
	rm -rf bin
