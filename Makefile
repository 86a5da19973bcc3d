# SPDX-License-Identifier: MIT
#
# Shortcuts for the CMake presets and the scripts, which contain all the logic.

PREFIX ?= /usr/local
SESSIONS ?= 100000
PROGRAMS ?= 10000
OPERATIONS ?= 1000000
SHARED_PROCS := 1,2,16,64
JOBS ?= $(shell nproc)
export JOBS

PRESETS := release i386 debug checked asan tsan
ARM_PRESETS := aarch64 arm
MORE_PRESETS := riscv64 portable s390x ppc64le musl
# These need the release preset's build directory: scripts/test.
PARTS := models benches
# Builds go ahead of the tests, in this order (scripts/test). The models come last, because they need
# no build, and their searches compute rather than wait.
GATE := release asan tsan checked i386 benches aarch64 arm models

.PHONY: help build run docs install install-variants install-preload deb format check-format clean \
	$(PRESETS:%=build-%) $(PRESETS:%=test-%) $(PARTS:%=test-%) $(ARM_PRESETS:%=build-%) \
	$(MORE_PRESETS:%=build-%) $(MORE_PRESETS:%=test-%) \
	test test-aarch64 test-all test-arm test-clock test-copy test-descriptors test-idle \
	test-mutants test-of test-programs test-revocations test-scan test-threads \
	check-abi dist gate flaky fuzz nightly soak chaos-relay demo-blocking demo-dump screenshot \
	benches \
	bench-blocking bench-blocking-server bench-clock bench-copy bench-files bench-gc \
	bench-hooks bench-http bench-http-idle bench-lines bench-ramp bench-relay bench-relay-idle \
	bench-resolve bench-run bench-shared bench-stall bench-tasks bench-tls bench-udp bench-unix bench-wait
.NOTPARALLEL:

help:
	@echo 'make run                  build the relay and try it, on 127.0.0.1:8080'
	@echo 'make test                 the tests of the release preset but those that only the gate runs'
	@echo 'make gate                 what a change must pass before it lands: .ci/run'
	@echo 'make test-all             every preset ($(PRESETS) $(ARM_PRESETS) $(MORE_PRESETS)), the models, the benchmarks'
	@echo 'make test-PRESET          every test of one preset'
	@echo 'make test-models          the models of the protocols, and their mutants'
	@echo 'make test-benches         that the benchmarks run'
	@echo 'make test-arm             every test for aarch64 and 32-bit ARM, under qemu'
	@echo 'make test-aarch64         every test for aarch64 only'
	@echo 'make test-riscv64         every test for riscv64, under qemu'
	@echo 'make test-portable        the core tests with the switch for unknown architectures'
	@echo 'make test-s390x           the same for s390x (also test-ppc64le), under qemu'
	@echo 'make test-musl            what is written in C, with musl in place of glibc'
	@echo 'make test-of              which tests cover a file, and runs them: FILE=src/sched/wake.c'
	@echo 'make flaky                repeats a test beside busy processes: CASE= ROUNDS=100 PRESET=release'
	@echo 'make nightly              the release suite under load: ROUNDS=5 BUSY=4 PRESET=release'
	@echo 'make soak                 a long run of the hostile-environment test: HOURS=1 PRESET=release SEED='
	@echo 'make test-clock           a long test of the clocks: 10^9 reads, and 10 minutes against the kernel'
	@echo 'make bench-clock          what the clocks cost, for x86_64 and i386, beside Rust and Go'
	@echo 'make fuzz                 fuzz what reads bytes of others: SECONDS=60 each'
	@echo 'make build                the release preset, in build/release'
	@echo 'make build-PRESET         another preset, in build/PRESET'
	@echo 'make benches              the programs of the benchmarks, in build/release/bench'
	@echo 'make docs                 the documentation as a site and as manual pages, in build/docs'
	@echo 'make bench-shared         atomics, fences, shared lines and system calls of each operation: PROCS=1,2'
	@echo 'make bench-tasks          tasks, channels and locks, beside Go, tokio, Boost.Fiber and Java'
	@echo 'make install              install the release build: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make install-variants     the same, and the builds for debuggers and sanitizers (docs/tools.md)'
	@echo 'make install-preload      the clocks for unmodified programs, 64-bit and 32-bit (docs/clock.md)'
	@echo 'make deb                  the Debian packages, in build/deb'
	@echo 'make dist                 the source tarball, its bill of materials and checksums, in build/dist'
	@echo 'make demo-blocking        a heartbeat beside C calls that block, with and without leases'
	@echo 'make demo-dump            a dump of TASKS=100000 tasks beside a benchmark'
	@echo 'make bench-blocking       what a blocking bracket costs, beside Go'
	@echo 'make bench-blocking-server  a server whose requests block, beside Go and tokio'
	@echo 'make bench-stall          latency beside tasks that block or compute, beside Go, tokio and Photon'
	@echo 'make bench-gc             how long collections stop the tasks: TASKS="1000 10000"'
	@echo 'make bench-files          reads and writes of files in tasks, beside threads and io_uring'
	@echo 'make bench-hooks          what hooked calls, and libraries on them, cost'
	@echo 'make bench-resolve        how late tasks are when the name service does not answer'
	@echo 'make bench-run            microsocks, tinyproxy and siege with tasks in place of threads, beside themselves'
	@echo 'make bench-unix           round trips over Unix sockets, beside TCP and Go'
	@echo 'make bench-copy           TCP to TCP copies by chunk, beside Go and a bare epoll loop'
	@echo 'make bench-relay          the relay beside HAProxy, nginx, Go, socat and bare epoll loops'
	@echo 'make bench-ramp           the relay and the HTTP server with 16 to 10,000 connections, beside others'
	@echo 'make bench-lines          lines and locked instructions of one request of the relay: BY_NAME=1'
	@echo 'make bench-relay-idle     memory of idle connections, plain and with TLS, beside HAProxy and nginx'
	@echo 'make chaos-relay          clients of the relay and HAProxy while all behind them changes: SECONDS=600'
	@echo 'make bench-udp            datagrams that a server echoes, beside Go, tokio and bare loops'
	@echo 'make bench-http           examples/http-server beside Go, hyper and nginx'
	@echo 'make bench-http-idle      memory of its connections at rest, beside the same'
	@echo 'make bench-tls            TLS servers beside Go, nginx and HAProxy, per second of CPU'
	@echo 'make bench-wait           latency of a server that collects garbage, beside Go'
	@echo 'make test-copy            long: random sessions through copies and relays: SESSIONS=100000'
	@echo 'make test-programs        long: random programs of channels, locks and scopes: PROGRAMS=10000'
	@echo 'make test-descriptors     long: random programs over descriptors: OPERATIONS=1000000 PRESET=tsan'
	@echo 'make test-mutants         mutation testing, lists the survivors: LAYER=src/sync COUNT=50 SEED=...'
	@echo 'make test-threads         threads of the examples under load, in one table; MOST=1'
	@echo 'make test-revocations     long: a million revoked brackets'
	@echo 'make screenshot           a picture of the relay at work, in docs/relay-page.png'
	@echo 'make test-scan            long: random scans of tasks, for 10^7 changes of status'
	@echo 'make test-idle            the CPU time of 10,000 parked tasks, and of an idle relay: SECONDS=30'
	@echo 'make format, check-format format the C and C++ files, or check that they are'
	@echo 'make check-abi            compare the libraries with those of the last release (docs/stability.md)'
	@echo 'make clean                remove build/'

build:
	@scripts/setup build
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

# The benchmarks, which build/release has not otherwise.
benches:
	@scripts/setup build
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target benches

# Builds only the two programs that it starts. The first time, it does not configure the rest, which
# takes longer than that of both; every other command does.
run:
	@scripts/setup build
	cmake --preset release $(if $(wildcard build/release/build.ninja),,\
		--no-warn-unused-cli -DSENNIT_TESTS=OFF -DSENNIT_BENCH=OFF -DSENNIT_TRACE=OFF -DSENNIT_TLS_CHECK=OFF)
	cmake --build --preset release -j $(JOBS) --target sennit-relay example-demo-upstream
	@scripts/run-demo

test:
	@scripts/setup test
	@scripts/test --quick release

# Begins with the release preset. EXCEPT=asan skips presets, such as those that were tested just
# before. `make test` is less than that of the release preset.
gate:
	@scripts/setup test
	@scripts/setup arm
	@scripts/test --gate $(filter-out $(EXCEPT),$(GATE))

test-all:
	@scripts/setup test
	@scripts/setup arm
	@scripts/setup cross
	@scripts/setup nightly
	@SENNIT_TEST_PACKAGES=1 scripts/test \
		$(filter-out $(EXCEPT),$(PRESETS) $(PARTS) $(ARM_PRESETS) $(MORE_PRESETS))

# FILE=src/sched/wake.c; the table that it reads is made by scripts/test-of --make.
test-of:
	@scripts/setup test
	@scripts/test-of $(FILE)

# CASE=sched/timer/TimerStress.StopAgainstFire PRESET=release ROUNDS=100 BUSY=4
flaky:
	@scripts/run-tests flaky $(or $(PRESET),release) '$(CASE)' --rounds $(or $(ROUNDS),100) \
		--busy $(or $(BUSY),4)

$(PRESETS:%=build-%): build-%:
	@scripts/setup test
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

$(PRESETS:%=test-%) $(PARTS:%=test-%): test-%:
	@scripts/setup test
	@scripts/test $*

$(ARM_PRESETS:%=build-%): build-%:
	@scripts/setup arm
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

$(MORE_PRESETS:%=build-%): build-%:
	@scripts/setup cross
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

$(MORE_PRESETS:%=test-%): test-%:
	@scripts/setup cross
	@scripts/test $*

test-arm:
	@scripts/setup arm
	@scripts/test $(ARM_PRESETS)

# Lists each test that failed even once, beside busy processes or while the wall clock is stepped.
nightly:
	@scripts/setup nightly
	@scripts/setup abi
	@status=0; scripts/nightly $(or $(PRESET),release) $(or $(ROUNDS),5) $(or $(BUSY),4) || status=1; \
		scripts/check-abi && exit $$status

# The short form is in every preset's hostile/short. HOURS may be a fraction. The default SEED comes
# from the clock.
soak:
	@scripts/setup test
	@scripts/soak $(or $(PRESET),release) $(or $(HOURS),1) $(SEED)

# The short forms of both are in every preset's clock/behaviour.
test-clock: build
	build/release/tests/clock/behaviour --never-back=1000000000
	build/release/tests/clock/behaviour --follow=600

bench-clock:
	@scripts/setup test
	@for preset in release i386; do \
		cmake --preset $$preset >/dev/null && \
		cmake --build --preset $$preset -j $(JOBS) \
			--target bench-clock bench-clock-shared sennit-clock-preload && \
		build/$$preset/bench/bench-clock && \
		echo 'linked with the shared library, and then preloaded as well:' && \
		build/$$preset/bench/bench-clock-shared --time && \
		LD_LIBRARY_PATH=build/$$preset/tools/clock-preload \
			LD_PRELOAD=libsennit-clock-preload.so \
			build/$$preset/bench/bench-clock-shared --time || exit 1; \
	done
	@bench/clock/peers.py build/release

fuzz:
	@scripts/setup test
	@scripts/fuzz $(SECONDS)

test-aarch64:
	@scripts/setup arm
	@scripts/test aarch64

demo-blocking:
	@scripts/setup demo
	@$(MAKE) --no-print-directory benches
	@scripts/demo-blocking

# TASKS=100000
demo-dump: benches
	build/release/bench/bench-dump $(or $(TASKS),100000)

# TASKS="0 1000 10000 100000"
bench-gc:
	@scripts/setup test
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target bench-gc
	build/release/bench/gc/bench-gc $(TASKS)

bench-blocking: benches
	@scripts/setup test
	@bench/blocking/syscall.py build/release

# ROUNDS=5; ROWS= runs only some of the rows.
bench-tasks: benches
	@scripts/setup bench
	@bench/tasks/tasks.py --rounds $(or $(ROUNDS),5) build/release $(ROWS)

# PROCS=1,2,16,64 ROWS="mutex timer"; BY_NAME=1 lists each write. The short form is in the
# release preset's sched/shared_bench.
bench-shared:
	@scripts/setup build
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target bench-shared
	@bench/shared/shared.py $(BY_NAME:1=--by-name) --procs '$(or $(PROCS),$(SHARED_PROCS))' \
		build/release $(ROWS)

docs:
	@scripts/setup docs
	@scripts/docs
	@echo 'The site is build/docs/html/index.html; manual pages: man -M build/docs/man sn_go'

bench-blocking-server: benches
	@scripts/setup test
	@bench/blocking/server.py build/release

# ROUNDS=3 SECONDS=4 ROWS="block-30 closed" PEERS="sennit,Go" PHOTON=FOLDER, a clone of Photon's
# repository. The short form is in the release preset's sched/stall_bench.
bench-stall:
	@scripts/setup bench
	@$(MAKE) --no-print-directory benches
	@bench/stall/stall.py build/release --rounds $(or $(ROUNDS),3) --seconds $(or $(SECONDS),4) \
		$(PEERS:%=--only %) $(PHOTON:%=--photon %) $(ROWS)

# The short form is in the release preset's copy/copy_bench.
bench-copy: benches
	@scripts/setup test
	@bench/copy/copy.py build/release

# The short form is in the release preset's copy/files_bench.
bench-files: benches
	@bench/files/files.py build/release

bench-resolve: benches
	@build/release/bench/bench-resolve

# The packages are installed first, because the build looks for them.
bench-hooks:
	@scripts/setup test
	@$(MAKE) --no-print-directory benches
	@cmake --build --preset release -j $(JOBS) --target hooks-libraries
	@build/release/bench/bench-hooks
	@bench/libraries/libraries.py build/release

# CONNECTIONS=10000 ROUNDS=3; the short form is in the release preset's sennit-run/bench.
bench-run:
	@scripts/setup bench
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sennit-run sennit-run-library
	@bench/run/run.py build/release --connections $(or $(CONNECTIONS),10000) \
		--rounds $(or $(ROUNDS),3)
	@bench/run/siege.py build/release --connections $(or $(CONNECTIONS),10000) \
		--rounds $(or $(ROUNDS),3)

# The short form is in the release preset's net/unix_bench.
bench-unix: benches
	@scripts/setup test
	@bench/unix/echo.py build/release

# BENCH_RELAY_ROUNDS=5 BENCH_RELAY_SECONDS=0.7; the short form is in the release preset's relay/bench.
bench-relay: benches
	@scripts/setup bench
	@cmake --build --preset release -j $(JOBS) --target sennit-relay
	@bench/relay/relay.py build/release

# ROUNDS=5 SECONDS=1 CONNS=16,64,256,1000,4000,10000 WHAT="relay http"
# RELAYS="sennit-relay;nginx stream" SERVERS="sennit;nginx"; the short forms are in the release
# preset's relay/bench and examples/http_bench.
RAMP = --rounds $(or $(ROUNDS),5) --seconds $(or $(SECONDS),1) $(CONNS:%=--connections %)
bench-ramp: WHAT ?= relay http
bench-ramp:
	@scripts/setup test
	@scripts/setup bench
	@$(MAKE) --no-print-directory benches
	@cmake --build --preset release -j $(JOBS) --target sennit-relay example-http-server
	@$(if $(filter relay,$(WHAT)),bench/relay/ramp.py build/release $(RAMP) \
		$(if $(RELAYS),--only '$(RELAYS)'),true)
	@$(if $(filter http,$(WHAT)),bench/http/ramp.py build/release $(RAMP) \
		$(if $(SERVERS),--only '$(SERVERS)'),true)

# CONNECTIONS=32; BY_NAME=1 lists each line. The short form is in the release preset's relay/bench.
bench-lines:
	@scripts/setup test
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sennit-relay
	@bench/relay/lines.py build/release --connections $(or $(CONNECTIONS),32) \
		$(BY_NAME:1=--by-name)

# CONNECTIONS=10000 ROUNDS=3; the short form is in the release preset's relay/bench.
bench-relay-idle:
	@scripts/setup bench
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sennit-relay
	@bench/relay/idle.py build/release --connections $(or $(CONNECTIONS),10000) \
		--rounds $(or $(ROUNDS),3)

# The short form is in the release preset's relay/chaos. SECONDS=600 RATE=40 SEED=1
chaos-relay:
	@scripts/setup bench
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sennit-relay
	@bench/relay/chaos.py build/release --seconds $(or $(SECONDS),600) --rate $(or $(RATE),40) \
		--seed $(or $(SEED),1)

# BENCH_UDP_ROUNDS=5 BENCH_UDP_SECONDS=1; the short form is in the release preset's net/udp_bench.
bench-udp: benches
	@scripts/setup bench
	@bench/udp/udp.py build/release

# BENCH_HTTP_ROUNDS=5 BENCH_HTTP_SECONDS=2; the short form is in the release preset's
# examples/http_bench. The packages are installed first, because the build looks for them.
bench-http:
	@scripts/setup test
	@scripts/setup bench
	@$(MAKE) --no-print-directory benches
	@cmake --build --preset release -j $(JOBS) --target example-http-server
	@bench/http/http.py build/release

# CONNECTIONS=1000,4000,16000
bench-http-idle:
	@scripts/setup test
	@scripts/setup bench
	@$(MAKE) --no-print-directory build
	@bench/http/idle.py build/release $(CONNECTIONS:%=--connections %)
	@bench/http/idle.py build/release --tls --connections 1000

# BENCH_TLS_ROUNDS=5 BENCH_TLS_SECONDS=1
bench-tls:
	@scripts/setup test
	@scripts/setup bench
	@$(MAKE) --no-print-directory benches
	@bench/tls/tls.py build/release

# BENCH_WAIT_RUNS=10 BENCH_WAIT_SECONDS=1; the short form is in the release preset's wait/bench.
# The packages are installed first, because the build looks for them.
bench-wait:
	@scripts/setup bench
	@$(MAKE) --no-print-directory benches
	@bench/wait/wait.py build/release

# The short form is in every preset's copy/relay_oracle.
test-copy: build
	SENNIT_TEST_SESSIONS=$(SESSIONS) build/release/tests/copy/copy-relay_oracle-test

# The short form is in every preset's sync/program.
test-programs: build
	SENNIT_TEST_PROGRAMS=$(PROGRAMS) build/release/tests/sync/sync-program-test

# The short form is in every preset's io/descriptors.
test-descriptors:
	@scripts/setup test
	SENNIT_TEST_OPERATIONS=$(OPERATIONS) \
		scripts/as-preset $(or $(PRESET),tsan) io-descriptors-test tests/io

# With the benchmarks it is examples/threads, in the release preset.
test-threads: build
	@scripts/setup test
	@SENNIT_BUILD_DIR='$(CURDIR)/build/release' \
		python3 tests/examples/threads_test.py $(MOST:1=--most)

test-revocations: build
	SENNIT_TEST_REVOCATIONS=1000000 SENNIT_TEST_SECONDS=600 \
		build/release/tests/sched/sched-lease-test --gtest_filter='*SurviveRevokedBrackets'

# LAYER=src/sync COUNT=50 SEED= FILES= ONLY= DEBUG=1 FAIL=1: see scripts/mutants.
test-mutants:
	@scripts/setup mutants
	@scripts/mutants --layer $(or $(LAYER),src/sync) --count $(or $(COUNT),50) \
		$(SEED:%=--seed %) $(FILES:%=--files=%) $(if $(ONLY),--only '$(ONLY)') \
		$(DEBUG:1=--debug) $(FAIL:1=--fail)

# The short form is in the release preset's relay/page.
screenshot: build
	@scripts/setup test
	SENNIT_BUILD_DIR='$(CURDIR)/build/release' SENNIT_PAGE_SECONDS=130 \
		SENNIT_SCREENSHOT='$(CURDIR)/docs/relay-page.png' \
		python3 tests/relay/page_test.py InABrowser.test_it_shows_what_the_relay_does

# The short form is in every preset's observe/scan.
test-scan: build
	SENNIT_TEST_TRANSITIONS=10000000 build/release/tests/observe/observe-scan-test \
		--gtest_filter='Scan.AtRandomWhileTasksLive'

# The short forms are in every preset's sched/idle and relay/idle.
test-idle: build
	SENNIT_TEST_IDLE_SECONDS=$(or $(SECONDS),30) build/release/tests/sched/sched-idle-test
	SENNIT_TEST_IDLE_SECONDS=$(or $(SECONDS),30) build/release/tests/relay/relay-idle-test

deb:
	@scripts/setup deb
	@scripts/deb

# The tarball of the current commit, its bill of materials and the checksums, in build/dist.
dist:
	@scripts/dist

format:
	@scripts/format

check-format:
	@scripts/format --check

check-abi:
	@scripts/setup build
	@scripts/setup abi
	@scripts/check-abi

# Builds only what is installed. DESTDIR is read by cmake --install from the environment.
install:
	@case '$(PREFIX)' in /*) ;; *) \
		echo 'install: PREFIX is "$(PREFIX)"; expected: a path that begins with a slash' >&2; \
		exit 2 ;; esac
	@scripts/setup build
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sennit-installed
	DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'
	@DESTDIR='$(DESTDIR)' scripts/after-install '$(PREFIX)'

# VARIANTS="asan valgrind" installs only these. What after-install says, `install` has said already.
install-variants: install
	@scripts/setup variants
	@DESTDIR='$(DESTDIR)' scripts/install-variants '$(PREFIX)' $(VARIANTS)
	@DESTDIR='$(DESTDIR)' scripts/after-install '$(PREFIX)' >/dev/null

install-preload:
	@scripts/setup preload
	@DESTDIR='$(DESTDIR)' scripts/install-preload '$(PREFIX)'

clean:
	rm -rf build
