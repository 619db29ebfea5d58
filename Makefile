# Commands of the project. `make` alone lists them.

CARGO ?= cargo
# The oldest Rust that builds this: `rust-version` of Cargo.toml.
RUST_NEEDED := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# `make test KEEP_TIMES=yes` adds a row for each stage to docs/results/gate-times.csv.
KEEPING := $(if $(KEEP_TIMES),--keep-times)

# The last release of MinIO's source.
MINIO := v0.0.0-20260212201848-7aac2a2c5b7c

.DEFAULT_GOAL := help
.PHONY: help run lab test test-all release packages dist test-zoned zoned-f2fs conformance clients attacks damage tables soak soak-serve bench toolchain

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

run: toolchain ## build and start the S3 cache with defaults, on 127.0.0.1:9000
	@$(CARGO) run --profile quick --package zonal -- serve

lab: toolchain ## build zonal-lab, the tool for measurements and simulations (target/quick/zonal-lab)
	@$(CARGO) build --profile quick --package zonal-laboratory

test: toolchain ## format, lint, unit and integration tests; installs test tools, asks before system packages
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci $(KEEPING)

test-all: toolchain ## the other tests: zoned drives in guests, all S3 clients, HTTPS, nodes, planted bugs, ...
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask ci --rest $(KEEPING)

release: toolchain ## optimized zonal and zonal-lab in target/shipped, with symbols in separate files
	@$(CARGO) xtask release

packages: toolchain ## .deb, .rpm, an archive of static programs and a container image, in target/dist
	@$(CARGO) xtask package

dist: toolchain ## a release from a tag, 20 minutes: make dist TAG=v0.1.0
	@test -n "$(TAG)" || { echo "name a tag: make dist TAG=v0.1.0"; exit 1; }
	@$(CARGO) xtask dist $(TAG)

test-zoned: toolchain ## zoned drives under two kernels in QEMU, 10 minutes; writes docs/results/zoned.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask test-zoned

zoned-f2fs: toolchain ## a cache on F2FS beside one on the zoned drive itself, in QEMU, 15 minutes; writes docs/results/f2fs.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask zoned-f2fs

conformance: toolchain ## an S3 server's test suite, directly and through Zonal, 4 minutes; writes docs/results/conformance.md
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/clients/conformance.py --zonal target/gate/zonal --report docs/results/conformance.md

clients: toolchain ## twelve S3 clients and the Java, JavaScript and Hadoop SDKs, 10 minutes; writes docs/results/clients.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/clients/sdks.py --zonal target/gate/zonal
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --freshness ttl=60s
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --freshness immutable
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --report docs/results/clients.md

attacks: toolchain ## attacks on access keys over MinIO, versitygw and s3proxy, 50 minutes; writes docs/results/attacks.md
	@command -v java mvn >/dev/null || { echo "s3proxy needs Java and Maven (Debian: apt install default-jre-headless maven)"; exit 1; }
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@test -x .tools/minio/minio || GOBIN=$(CURDIR)/.tools/minio go install github.com/minio/minio@$(MINIO)
	@test -d .tools/s3proxy || mvn --quiet --file tests/attacks/s3proxy.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.tools/s3proxy
	@.tools/venv/bin/python tests/attacks --zonal target/gate/zonal --minio .tools/minio/minio --versitygw .tools/bin/versitygw \
	  --s3proxy '$(CURDIR)/.tools/s3proxy/*' --report docs/results/attacks.md

damage: toolchain ## damaged devices: 2,000 trials on block devices and caches, 30 minutes; writes docs/results/damage.md
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/damage --zonal target/gate/zonal --trials 2000 --report docs/results/damage.md

tables: toolchain ## Parquet queries with and without Zonal, 10 minutes; writes docs/results/tables.md
	@$(CARGO) xtask setup
	@test -x .tools/bin/toxiproxy || { \
	  GOBIN=$(CURDIR)/.tools/toxiproxy go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 && \
	  mv .tools/toxiproxy/server .tools/bin/toxiproxy; }
	@$(CARGO) build --release --package zonal
	@.tools/venv/bin/python tests/clients/tables.py --zonal target/release/zonal --report docs/results/tables.md

soak-serve: toolchain ## `zonal serve` for half an hour with faults of everything, kills and stalled clients; writes docs/results/soak.md
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/soak --zonal target/gate/zonal --report docs/results/soak.md

soak: toolchain ## 215,000 simulated histories, 500 for each policy, 500 kills, all slow tests: hours
	@ZONAL_SIM_SEEDS=200000 ZONAL_SIM_DRIVE_SEEDS=10000 ZONAL_SIM_POLICY_SEEDS=500 $(CARGO) test --profile soak --package zonal-sim --test seeds -- --nocapture
	@ZONAL_SIM_BLOCK_SEEDS=5000 $(CARGO) test --profile soak --package zonal-sim --test block -- --nocapture
	@ZONAL_KILL_ROUNDS=500 $(CARGO) test --package zonal --test binary crash:: -- --nocapture
	@SLOW_TESTS=1 $(CARGO) test --profile soak --package zonal-lab --package zonal-zonelog --package zonal-shaper -- --nocapture

bench: toolchain ## benchmarks beside foyer, fio, nginx and nbdkit, 30 minutes; writes docs/results/first-slice.md, http.md and block.md
	@$(CARGO) run --release --package zonal-bench -- all
	@$(CARGO) run --release --package zonal-bench -- http
	@$(CARGO) run --release --package zonal-bench -- block

toolchain:
	@command -v $(CARGO) >/dev/null || { \
	  echo "there is no cargo: install Rust $(RUST_NEEDED) or newer from your distribution or with rustup (https://rustup.rs)"; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "there is no C compiler (cc): install gcc or clang from your distribution"; exit 1; }
	@found=$$($(CARGO) --version | cut -d' ' -f2); \
	  printf '%s\n' "$(RUST_NEEDED)" "$$found" | sort --check=quiet --version-sort || { \
	  echo "cargo $$found is too old: install Rust $(RUST_NEEDED) or newer with rustup (https://rustup.rs)"; exit 1; }
