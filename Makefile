# The one entry point. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools that the checks need and that are built once, outside the tree.
FERRULE_CACHE ?= $(HOME)/.cache/ferrule
export FERRULE_CACHE

STORY := cargo run --quiet --locked -p ferrule-testkit --bin story --

# For `make story`, `make fuzz`.
NAME ?=
TARGET ?=
SECONDS ?= 60
# For `make conformance`, `make bench-peer`, `make soak`.
CLUSTERS ?= 500
SEED ?= 1
SIZES ?=
OUT ?= target/bench-peer
MINUTES ?= 30
ATTACKS ?=
# For `make bench-userspace`.
ROUNDS ?= 5
PARTS ?=
# For `make tour-userspace`; `SECONDS` is the shell's own.
CONNECTIONS ?= 20000
RATE ?= 1000
DURATION ?= 60
VM ?=
# For `make vm-ipvs`.
TESTS ?=
# For `make e2e`.
MODES ?= nftables iptables userspace
SPECS ?=
QUICK ?=
# For `make release`, `make image`, `make deb`. The repository is a placeholder: set your own.
ARCH ?= amd64
REPOSITORY ?= registry.example/ferrule
TAG ?=
# For `make manifests-check`.
VERSIONS ?= 1.34 1.35 1.36 1.37

.PHONY: help
help:
	@printf 'Ferrule. Targets:\n\n'
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
	@printf '\nNew here? Start with `make demo` and CONTRIBUTING.md.\n'

.PHONY: demo
demo: setup ## Serve a folder of manifests in a small world of namespaces, and show what becomes of connections
	@scripts/setup demo
	@echo 'Building Ferrule and the demo (optimised, some minutes the first time) …'
	@cargo build --locked --release -p ferrule -p ferrule-testkit --bin ferrule --bin demo
	@"$${CARGO_TARGET_DIR:-target}/release/demo" "$${CARGO_TARGET_DIR:-target}/release/ferrule"

.PHONY: test
test: setup ## Run every story and every test
	@scripts/setup test
	@scripts/test

.PHONY: vm
vm: setup ## Run the tests of nftables, of iptables over netlink and of IPVS on Linux 6.1 in a virtual machine (installs qemu)
	@scripts/setup vm
	@scripts/vm

.PHONY: vm-ipvs
vm-ipvs: setup ## Run the program and the real kube-proxy in ipvs mode on a real API server in a virtual machine [TESTS='e2e/ipvs=drain']
	@scripts/setup vm
	@scripts/cluster-build
	@scripts/vm-ipvs $(TESTS)

.PHONY: check
check: setup ## Run what a change must pass besides tests: format, lints, docs, licences, tidy, coverage
	@scripts/check

.PHONY: story
story: setup ## Run one story, or all: make story NAME=local-policy-none-local
	@$(STORY) run $(NAME)

.PHONY: bless
bless: setup ## Rewrite the derived sections of all stories; read the diff before you commit it
	@$(STORY) bless

.PHONY: bench
bench: setup ## Measure planning, both modes and the program, alone and on a real API server: time, allocations, memory
	@scripts/cluster-build
	@echo 'Building the benchmarks (optimised, some minutes the first time) …'
	@cargo bench --quiet --locked -p ferrule-testkit -p ferrule-backends -p ferrule --bench planning --bench nftables --bench iptables --bench standalone
	@echo 'On a real API server: starts and a storm of changes; then iptables mode beside the real kube-proxy 1.37.1, which takes its time …'
	@cargo bench --quiet --locked -p ferrule-e2e --bench cluster --bench iptables

.PHONY: bench-cluster
bench-cluster: setup ## Measure the program on a real API server: starts, memory, a storm of changes [SERVICES=10000] [STORM_SECONDS=60] [BUILDS='one/ferrule other/ferrule']
	@scripts/cluster-build
	@echo 'Building Ferrule and the benchmark (optimised, some minutes the first time) …'
	@cargo bench --quiet --locked -p ferrule-e2e --bench cluster

.PHONY: bench-iptables
bench-iptables: setup ## Measure iptables mode, alone and beside the real kube-proxy's: starts, changes, repairs, the kernel's share, the lock [SIZES='1000 5000 10000'] [VARIANTS='nft legacy'] [PEER=0] [PROGRAMS=1]
	@scripts/setup test
	@scripts/cluster-build
	@echo 'Building Ferrule and the benchmark (optimised, some minutes the first time) …'
	@cargo bench --quiet --locked -p ferrule-backends --bench iptables
	@cargo bench --quiet --locked -p ferrule-e2e --bench iptables

.PHONY: bench-counters
bench-counters: setup ## Measure what counting connections costs, in rounds with and without it in turn [ROUNDS=60]
	@echo 'Building the benchmark (optimised, some minutes the first time) …'
	@ROUNDS='$(ROUNDS)' cargo bench --quiet --locked -p ferrule-backends --bench counters

.PHONY: bench-userspace
bench-userspace: setup ## Measure the relay of userspace mode beside HAProxy and kube-proxy 1.25 [ROUNDS=5] [PARTS='rate degraded bulk latency udp']
	@scripts/setup bench-userspace
	@scripts/cluster-build
	@scripts/peer-build kube-proxy-userspace >/dev/null || echo 'Going on without kube-proxy 1.25.'
	@echo 'Building the benchmark (optimised, some minutes the first time) …'
	@ROUNDS='$(ROUNDS)' PARTS='$(PARTS)' cargo bench --quiet --locked -p ferrule-relay --bench userspace

# In a virtual machine, where a process may have as many descriptors as it asks for; by its own clock, so in many minutes.
TOUR_IN_VM = scripts/setup vm && FERRULE_VM_PROFILE=release FERRULE_VM_CLOCK=instructions FERRULE_VM_MEGABYTES=4000 FERRULE_VM_SECONDS=14400 \
	FERRULE_VM_CONSOLE=target/tour-userspace.log FERRULE_VM_ENVIRONMENT='LOAD_CONNECTIONS=$(CONNECTIONS) LOAD_RATE=$(RATE) LOAD_SECONDS=$(DURATION)' \
	scripts/vm-ipvs ferrule/userspace_load && sed -n '/^| |/,/healthz/p' target/tour-userspace.log

.PHONY: tour-userspace
tour-userspace: setup ## Thousands of open connections in userspace mode while others come and go, for a minute [CONNECTIONS=20000] [RATE=1000] [DURATION=60] [VM=1]
	@scripts/setup test
	@echo 'Building Ferrule (optimised, some minutes the first time), then $(DURATION) seconds of load …'
	@$(if $(VM),$(TOUR_IN_VM),CI=true LOAD_CONNECTIONS='$(CONNECTIONS)' LOAD_RATE='$(RATE)' LOAD_SECONDS='$(DURATION)' \
		cargo test --quiet --locked --release -p ferrule --test userspace_load -- --nocapture)

.PHONY: bench-ipvs
bench-ipvs: setup ## Measure ipvs mode beside the real kube-proxy's in a virtual machine: starts, changes, memory [SIZES=100x5,1000x5,5000x2]
	@scripts/setup vm
	@scripts/cluster-build
	@echo 'Building Ferrule and the benchmark (optimised, some minutes the first time), then waiting for kube-proxy: an hour or more …'
	@sizes='$(SIZES)'; FERRULE_VM_PROFILE=release FERRULE_VM_CLOCK=instructions FERRULE_VM_SECONDS=14400 FERRULE_VM_CONSOLE=target/bench-ipvs.log \
		FERRULE_VM_ENVIRONMENT="FERRULE_SIZES=$${sizes:-100x5,1000x5,5000x2} FERRULE_SPEED_MINUTES=30" scripts/vm-ipvs e2e/ipvs=how_long
	@sed -n '/Services with .* endpoints each/,/^test /p' target/bench-ipvs.log

.PHONY: e2e
e2e: setup ## Upstream's [sig-network] specs on a real Kubernetes of two nodes, Ferrule beside kube-proxy; rolls under load, a reboot [MODES='nftables iptables userspace'] [SPECS=regex] [QUICK=1]
	@scripts/setup e2e
	@MODES='$(MODES)' SPECS='$(SPECS)' QUICK='$(QUICK)' scripts/e2e

.PHONY: cluster
cluster: setup ## Build a real API server for the tests that want one (once, with Go)
	@scripts/cluster-build

.PHONY: peer-check
peer-check: setup ## Compare flags, configuration files, verdicts and iptables rules with the real kube-proxy (builds it once, with Go)
	@scripts/peer-check

.PHONY: conformance
conformance: setup ## The real kube-proxy and Ferrule side by side, the same packets to hundreds of clusters; ipvs mode in a virtual machine [CLUSTERS=500] [SEED=1]
	@scripts/setup test
	@scripts/setup vm
	@scripts/cluster-build
	@CI=true CONFORMANCE_SEED='$(SEED)' CONFORMANCE_NFTABLES='$(CLUSTERS)' CONFORMANCE_IPTABLES="$$(( $(CLUSTERS) * 2 / 5 ))" \
		cargo test --quiet --locked -p ferrule-e2e --test conformance -- --nocapture
	@echo 'ipvs mode, all its tests, where the processor is imitated: an hour or more; target/conformance-ipvs.log tells how far it is …'
	@CI=true FERRULE_VM_SECONDS=28800 FERRULE_VM_CONSOLE=target/conformance-ipvs.log \
		FERRULE_VM_ENVIRONMENT="CONFORMANCE_SEED=$(SEED) CONFORMANCE_IPVS=$$(( $(CLUSTERS) / 5 ))" scripts/vm-ipvs

.PHONY: bench-peer
bench-peer: setup ## Measure kube-proxy and Ferrule on one API server; tables, JSON and a chart [SIZES=5000x10,…] [OUT=folder]
	@scripts/setup test
	@scripts/cluster-build
	@echo 'Building Ferrule and the benchmark (optimised, some minutes the first time) …'
	@CI=true OUT="$$(realpath -m '$(OUT)')" SIZES='$(SIZES)' cargo bench --quiet --locked -p ferrule-e2e --bench peer

.PHONY: soak
soak: setup ## Churn, outages, flushes and restarts under load, with a report at the end [MINUTES=30] [ATTACKS=1]
	@scripts/setup test
	@scripts/cluster-build
	@echo 'Building Ferrule (optimised, some minutes the first time), then running for $(MINUTES) minutes …'
	@CI=true SOAK_SECONDS="$$(( $(MINUTES) * 60 ))" $(if $(ATTACKS),SOAK_ATTACKS=1) cargo test --quiet --locked --release -p ferrule-e2e --test soak -- --nocapture

.PHONY: adversary
adversary: setup ## Attack the program as the threat model has it, and print a table: attack, expected, seen
	@scripts/setup test
	@echo 'Building Ferrule and the attacks (some minutes the first time) …'
	@CI=true ADVERSARY_FULL=1 cargo test --quiet --locked -p ferrule --test adversary -- --nocapture

.PHONY: release
release: setup ## Build what is shipped: one static file, its symbols, a bill of materials, checksums [ARCH=amd64|arm64]
	@scripts/setup release-$(ARCH)
	@scripts/release $(ARCH)

.PHONY: release-check
release-check: setup ## Build the release and the images twice, in two folders, and compare every byte; takes a while
	@scripts/setup release-amd64
	@scripts/release-check

.PHONY: image
image: release ## Write the container images as archives, without a daemon [ARCH=] [REPOSITORY=registry.example/ferrule] [TAG=]
	@ARCH='$(ARCH)' REPOSITORY='$(REPOSITORY)' TAG='$(TAG)' scripts/image

.PHONY: deb
deb: release ## Write a Debian package with a systemd unit [ARCH=]
	@scripts/deb $(ARCH)

.PHONY: manifests-check
manifests-check: setup ## Ask real API servers of several versions whether they take the manifests (builds each once, with Go) [VERSIONS='1.34 1.37']
	@scripts/setup test
	@scripts/manifests-check $(VERSIONS)

.PHONY: random-input
random-input: setup ## A million random configuration files: no panic, every refusal names a field or a line
	@scripts/random-input

.PHONY: fuzz
fuzz: setup ## Feed the parsers random input: make fuzz [TARGET=name] [SECONDS=60]
	@scripts/fuzz '$(SECONDS)' $(TARGET)

.PHONY: clean-cache
clean-cache: ## Remove the tools that `make check` built outside the tree
	rm -rf -- '$(FERRULE_CACHE)/tools'

.PHONY: setup
setup:
	@scripts/setup
