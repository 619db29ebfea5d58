# The two commands of the project, and what stands behind them. `make` alone lists them.

CARGO ?= cargo
# The oldest Rust that builds this: `rust-version` of Cargo.toml.
RUST_NEEDED := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# `make test KEEP_TIMES=yes` adds a row for each stage to docs/results/gate-times.csv.
KEEPING := $(if $(KEEP_TIMES),--keep-times)

# The last release of MinIO's source.
MINIO := v0.0.0-20260212201848-7aac2a2c5b7c

.DEFAULT_GOAL := help
.PHONY: help run lab test test-all release test-zoned zoned-f2fs conformance clients attacks damage tables soak bench toolchain

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

run: toolchain ## build Zonal and start its S3 endpoint with the defaults (127.0.0.1:9000)
	@$(CARGO) run --profile quick --package zonal -- serve

lab: toolchain ## build zonal-lab, which measures and simulates (target/quick/zonal-lab)
	@$(CARGO) build --profile quick --package zonal-laboratory

test: toolchain ## what a change must pass: installs test tools (those of the system with your consent), then checks and tests
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci $(KEEPING)

test-all: toolchain ## all that `make test` leaves out: zoned guests, all S3 clients, HTTPS, nodes, planted bugs, ...
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask ci --rest $(KEEPING)

release: toolchain ## build what is shipped, zonal and zonal-lab: each optimised as one, its symbols in a file apart
	@$(CARGO) xtask release

test-zoned: toolchain ## ten minutes: zoned drives under two kernels, in QEMU; writes docs/results/zoned.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask test-zoned

zoned-f2fs: toolchain ## a quarter of an hour: a cache on a file of F2FS beside one on the same zoned drive, in QEMU; writes docs/results/f2fs.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask zoned-f2fs

conformance: toolchain ## four minutes: all of an S3 server's own tests, directly and through Zonal; writes docs/results/conformance.md
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/clients/conformance.py --zonal target/gate/zonal --report docs/results/conformance.md

clients: toolchain ## ten minutes: twelve S3 clients, under each freshness and over HTTPS, and the SDKs for Java, JavaScript and Hadoop; writes docs/results/clients.md
	@$(CARGO) xtask setup --rest
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/clients/sdks.py --zonal target/gate/zonal
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --freshness ttl=60s
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --freshness immutable
	@.tools/venv/bin/python tests/clients/reads.py --zonal target/gate/zonal --report docs/results/clients.md

attacks: toolchain ## most of an hour: all ways that we know past a key, over MinIO, versitygw and s3proxy; writes docs/results/attacks.md
	@command -v java mvn >/dev/null || { echo "s3proxy needs Java and Maven (Debian: apt install default-jre-headless maven)"; exit 1; }
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@test -x .tools/minio/minio || GOBIN=$(CURDIR)/.tools/minio go install github.com/minio/minio@$(MINIO)
	@test -d .tools/s3proxy || mvn --quiet --file tests/attacks/s3proxy.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.tools/s3proxy
	@.tools/venv/bin/python tests/attacks --zonal target/gate/zonal --minio .tools/minio/minio --versitygw .tools/bin/versitygw \
	  --s3proxy '$(CURDIR)/.tools/s3proxy/*' --report docs/results/attacks.md

damage: toolchain ## half an hour: 2,000 trials of damage at rest to block devices and caches; writes docs/results/damage.md
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci build
	@.tools/venv/bin/python tests/damage --zonal target/gate/zonal --trials 2000 --report docs/results/damage.md

tables: toolchain ## ten minutes: queries over Parquet files, with and without Zonal; writes docs/results/tables.md
	@$(CARGO) xtask setup
	@test -x .tools/bin/toxiproxy || { \
	  GOBIN=$(CURDIR)/.tools/toxiproxy go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 && \
	  mv .tools/toxiproxy/server .tools/bin/toxiproxy; }
	@$(CARGO) build --release --package zonal
	@.tools/venv/bin/python tests/clients/tables.py --zonal target/release/zonal --report docs/results/tables.md

soak: toolchain ## hours: 215,000 simulated histories and 500 for each policy, 500 kills of cache and block device, and all that is slow
	@ZONAL_SIM_SEEDS=200000 ZONAL_SIM_DRIVE_SEEDS=10000 ZONAL_SIM_POLICY_SEEDS=500 $(CARGO) test --profile soak --package zonal-sim --test seeds -- --nocapture
	@ZONAL_SIM_BLOCK_SEEDS=5000 $(CARGO) test --profile soak --package zonal-sim --test block -- --nocapture
	@ZONAL_KILL_ROUNDS=500 $(CARGO) test --package zonal --test binary crash:: -- --nocapture
	@SLOW_TESTS=1 $(CARGO) test --profile soak --package zonal-lab --package zonal-zonelog --package zonal-shaper -- --nocapture

bench: toolchain ## compare with foyer, fio, nginx and nbdkit, half an hour; writes docs/results/first-slice.md, http.md and block.md
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
