# Pathmirror's tasks. `make` alone lists them.

SWIFT ?= swift
PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
# The folder of zsh's completions under $(PREFIX); Debian's packages have theirs in share/zsh/vendor-completions
ZSH_COMPLETIONS ?= share/zsh/site-functions
# Options for the program a target runs, e.g. make run ARGS='--port 9010 --import export.json'
ARGS ?=
# The sides of `make compare`: binaries, or directories of Tests/recorded/recorder.py
OLD ?=
NEW ?=
# One room for `make test`, such as Tree, and a filter for its tests
ROOM =
FILTER =
# The campaign that `make campaign` runs
NAME =
# More options for every release build, e.g. SWIFT_FLAGS=--static-swift-stdlib for a binary that runs without the toolchain
SWIFT_FLAGS ?=

# The commit that `pathmirror version` shows; nothing without git
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)

# The hot rooms are generic code across targets: without this flag they run many times slower (docs/explanation/architecture.md).
RELEASE_BUILD = PATHMIRROR_COMMIT=$(COMMIT) $(SWIFT) build -c release -Xswiftc -cross-module-optimization $(SWIFT_FLAGS)
RELEASE = .build/release
# The folder of the program that `make install` copies
BUILT ?= $(RELEASE)

# Swift builds of one checkout exclude one another, and the recipes use all cores themselves.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help dependencies build run check test bench compare campaign lint format deb install clean toolchain

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

dependencies: ## Install the missing Debian packages for building and running (sudo where needed)
	@scripts/install-dependencies build run

build: toolchain ## Build everything in release mode
	@scripts/install-dependencies --check build
	@$(RELEASE_BUILD)

run: toolchain dependencies ## Install what is missing, build, and start `pathmirror dev $(ARGS)`
	@$(RELEASE_BUILD) --product pathmirror
	@exec $(RELEASE)/pathmirror dev $(ARGS)

check: toolchain ## Check the format, build in debug mode, and run the tests that need no PostgreSQL (minutes)
	@scripts/install-dependencies build
	@exec scripts/check

test: toolchain ## Install what is missing, then run every check and test; ROOM=Tree [FILTER=…]: the tests of one room
	@scripts/install-dependencies build $(if $(ROOM),run,run test faults)
	@exec $(if $(ROOM),scripts/test-room '$(ROOM)' '$(FILTER)',scripts/test)

bench: toolchain ## Install what is missing, then run the benchmarks (ratios, one run; --report: the races and their page)
	@scripts/install-dependencies build run bench
	@$(RELEASE_BUILD)
	@exec $(PYTHON) Benchmarks/run.py $(ARGS)

compare: toolchain ## Build, then compare all that clients see with another binary's: make compare OLD=BINARY [NEW=BINARY]
	@test -n "$(OLD)" || { echo "make compare: OLD must name the binary to compare with (or a recording of it)." >&2; exit 1; }
	@scripts/install-dependencies build run test
	@test -n "$(NEW)" || $(RELEASE_BUILD) --product pathmirror
	@python=$$(scripts/python-env) && PYTHONDONTWRITEBYTECODE=1 exec $$python Tests/recorded/recorder.py compare $(OLD) $(or $(NEW),$(RELEASE)/pathmirror) $(ARGS)

campaign: toolchain ## Run a long test: make campaign NAME=faults ARGS='--minutes 5'; without NAME it lists the campaigns
	@exec scripts/campaign $(NAME) $(ARGS)

lint: toolchain ## Check the format of the Swift sources and the shell scripts
	@scripts/lint

format: toolchain ## Rewrite the Swift sources in the house format
	@scripts/lint --fix

deb: toolchain ## Build a Debian package of the gateway with the Swift libraries in it: .build/deb/pathmirror_VERSION_ARCHITECTURE.deb
	@scripts/install-dependencies build deb
	@$(RELEASE_BUILD) --static-swift-stdlib --scratch-path .build/static --product pathmirror
	@scripts/deb

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
