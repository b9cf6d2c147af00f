# Pathmirror's tasks. `make` alone lists them.

SWIFT ?= swift
PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
# Where zsh looks for completions under $(PREFIX); Debian's packages have theirs in share/zsh/vendor-completions
ZSH_COMPLETIONS ?= share/zsh/site-functions
# Options for the program a target runs, e.g. make run ARGS='--port 9010 --import export.json'
ARGS ?=
# What `make compare` compares: binaries, or directories that Tests/recorded/recorder.py has written; `make upgrade` begins with OLD
OLD ?=
NEW ?=
# More options for every release build, e.g. SWIFT_FLAGS=--static-swift-stdlib for a binary that runs without the toolchain
SWIFT_FLAGS ?=

# The hot rooms are generic code across targets: without this flag they run many times slower (docs/architecture.md).
RELEASE_BUILD = $(SWIFT) build -c release -Xswiftc -cross-module-optimization $(SWIFT_FLAGS)
RELEASE = .build/release
# Where the program lies that `make install` copies
BUILT ?= $(RELEASE)

# Swift builds of one checkout exclude one another, and the recipes use all cores themselves.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help dependencies toolchain build run test stack compare bench public faults fairness client-soak ha upgrade mutants namespaces year moves mirror-campaign regex fuzz fuzz-live sanitize client-docs lint format deb deb-check install clean

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

dependencies: ## Install the missing Debian packages for building and running (sudo where needed)
	@scripts/install-dependencies build run

build: toolchain ## Build everything in release mode
	@$(RELEASE_BUILD)

run: toolchain dependencies ## Install what is missing, build, and start `pathmirror dev $(ARGS)`
	@$(RELEASE_BUILD) --product pathmirror
	@exec $(RELEASE)/pathmirror dev $(ARGS)

test: toolchain ## Install what is missing, then run every check and test
	@scripts/install-dependencies build run test faults
	@exec scripts/test

stack: ## Build the images, run the compose stack and try it, deaths, updates and failovers included (DOCKER; about half an hour)
	@exec scripts/stack $(ARGS)

bench: toolchain ## Install what is missing, then run the benchmarks (ratios, one run; --report: the races and their page)
	@scripts/install-dependencies build run bench
	@$(RELEASE_BUILD)
	@exec $(PYTHON) Benchmarks/run.py $(ARGS)

compare: toolchain ## Build, then compare all that clients see with another binary's: make compare OLD=BINARY [NEW=BINARY]
	@test -n "$(OLD)" || { echo "make compare: OLD must name the binary to compare with (or a recording of it)." >&2; exit 1; }
	@scripts/install-dependencies build run test
	@test -n "$(NEW)" || $(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/recorded/recorder.py compare $(OLD) $(or $(NEW),$(RELEASE)/pathmirror) $(ARGS)

public: toolchain ## Build, then run public suites of Firebase SDKs from sources at hand: make public ARGS='--source firebase/geofire-js=PATH'
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@exec Tests/public/run $(ARGS)

faults: toolchain ## Build, then try gateways, connections, PostgreSQL, disks and clocks for half an hour, `scripts/faults $(ARGS)`
	@scripts/install-dependencies build run test faults
	@$(RELEASE_BUILD) --product pathmirror
	@exec scripts/faults $(ARGS)

fairness: toolchain ## Build, then measure what one tenant notices of another's attacks (minutes), `scripts/fairness $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@exec scripts/fairness $(ARGS)

ha: toolchain ## Build, then fail over a PostgreSQL under Patroni 50 times while clients work (three quarters of an hour), `scripts/ha $(ARGS)`
	@scripts/install-dependencies build run test ha
	@$(RELEASE_BUILD) --product pathmirror
	@exec scripts/ha $(ARGS)

upgrade: toolchain ## Build, then update from an older version under load: make upgrade OLD=BINARY, `scripts/upgrade $(OLD) $(ARGS)`
	@test -n "$(OLD)" || { echo "make upgrade: OLD must name the older version's binary." >&2; exit 1; }
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@exec scripts/upgrade $(OLD) $(ARGS)

client-soak: toolchain ## Build, then try two clients over a bad network for an hour, `scripts/client-soak $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@$(SWIFT) build --build-tests
	@exec scripts/client-soak $(ARGS)

mutants: toolchain ## Take fences away, one at a time, and see that a test notices each (hours), `scripts/mutants $(ARGS)`
	@scripts/install-dependencies build run test faults
	@exec scripts/mutants $(ARGS)

namespaces: toolchain ## Build, then use 100,000 namespaces once each in 64 MiB, `Tests/e2e/campaign_namespaces.py $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PATHMIRROR_BINARY=$(CURDIR)/$(RELEASE)/pathmirror PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/e2e/campaign_namespaces.py $(ARGS)

year: toolchain ## Build, then let a year of 1,000 writes a second pass on a log that is shortened (forty minutes), `Tests/faults/year.py $(ARGS)`
	@scripts/install-dependencies build run test faults
	@$(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PATHMIRROR_BINARY=$(CURDIR)/$(RELEASE)/pathmirror PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/faults/year.py $(ARGS)

moves: toolchain ## Build, then move a namespace 100 times under load and faults, `Tests/e2e/campaign_moves.py $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PATHMIRROR_BINARY=$(CURDIR)/$(RELEASE)/pathmirror PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/e2e/campaign_moves.py $(ARGS)

mirror-campaign: toolchain ## Build, then an hour of random writes, definitions and kills on mirrors of every kind, `Tests/e2e/campaign_mirrors.py $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PATHMIRROR_BINARY=$(CURDIR)/$(RELEASE)/pathmirror PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/e2e/campaign_mirrors.py $(ARGS)

regex: toolchain ## Compare 100,000 pairs of a regular expression and a text with the library of the original: Tests/regex/README.md
	@scripts/install-dependencies build run regex
	@$(SWIFT) build --build-tests
	@PATHMIRROR_REGEX_PAIRS=$${PATHMIRROR_REGEX_PAIRS:-100000} exec $(SWIFT) test --skip-build --disable-xctest --filter 'RegexOracleTests'

fuzz: toolchain ## Build and run the fuzzer, `pathmirror-fuzz $(ARGS)`
	@grep -qs '"pathmirror-fuzz"' Package.swift || { echo 'make fuzz: Package.swift has no pathmirror-fuzz product.' >&2; exit 1; }
	@$(RELEASE_BUILD) --product pathmirror-fuzz
	@exec $(RELEASE)/pathmirror-fuzz $(ARGS)

fuzz-live: toolchain ## Fuzz a gateway over its sockets under AddressSanitizer, `Tests/fuzz/live.py $(ARGS)`
	@scripts/install-dependencies build run
	@$(SWIFT) build -c release --sanitize=address --scratch-path .build/asan --product pathmirror
	@PATHMIRROR_BINARY=$(CURDIR)/.build/asan/release/pathmirror PYTHONDONTWRITEBYTECODE=1 exec $(PYTHON) Tests/fuzz/live.py $(ARGS)

sanitize: toolchain ## Run the client's suites under ThreadSanitizer and AddressSanitizer, `scripts/sanitize $(ARGS)`
	@scripts/install-dependencies build run test
	@$(RELEASE_BUILD) --product pathmirror
	@exec scripts/sanitize $(ARGS)

client-docs: toolchain ## Build the client library's API documentation: make client-docs ARGS=FOLDER
	@scripts/install-dependencies build run
	@exec scripts/client-docs $(ARGS)

lint: toolchain ## Check the format of the Swift sources and the shell scripts
	@scripts/lint

format: toolchain ## Rewrite the Swift sources in the house format
	@scripts/lint --fix

deb: toolchain ## Build a Debian package of the gateway with the Swift libraries in it: .build/deb/pathmirror_VERSION_ARCHITECTURE.deb
	@scripts/install-dependencies build deb
	@$(RELEASE_BUILD) --static-swift-stdlib --scratch-path .build/static --product pathmirror
	@scripts/deb

deb-check: ## Install, use, update and remove the newest package of `make deb` in a clean Debian (root or sudo)
	@scripts/install-dependencies run test deb
	@exec scripts/deb-check $(ARGS)

install: ## Copy the built binary, its manual, completions and the systemd unit under $(DESTDIR)$(PREFIX)
	@test -x $(BUILT)/pathmirror || { echo "make install: nothing is built yet: run 'make build' first." >&2; exit 1; }
	install -D -m 755 $(BUILT)/pathmirror $(DESTDIR)$(PREFIX)/bin/pathmirror
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/|$(PREFIX)/|' deploy/pathmirror.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/pathmirror.service
	install -d $(DESTDIR)$(PREFIX)/share/man
	$(BUILT)/pathmirror man --folder $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/$(ZSH_COMPLETIONS) $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BUILT)/pathmirror completions bash --output $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pathmirror
	$(BUILT)/pathmirror completions zsh --output $(DESTDIR)$(PREFIX)/$(ZSH_COMPLETIONS)/_pathmirror
	$(BUILT)/pathmirror completions fish --output $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pathmirror.fish
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/pathmirror/LICENSE

clean: ## Remove build products and the tests' Python environment (never `dev`'s data)
	rm -rf .build .venv .venv-patroni

toolchain:
	@command -v $(SWIFT) >/dev/null || { \
		echo "make: no Swift toolchain: install Swift 6.2 or newer (swift.org/install) and put 'swift' on PATH." >&2; \
		exit 1; }
