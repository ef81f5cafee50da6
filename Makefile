# Everything runs in a virtual environment of its own, .venv, which the first target that needs it creates: `make run`
# installs only what a server needs, and the first other target adds the tools of development.
# Needed beforehand: make, and Python 3.11 or newer (another one than python3: make PYTHON=python3.12 test).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check

# What `make bench` measures: the compiled wheel, in an environment of its own.
COMPILED := .venv-compiled
COMPILED_READY := $(COMPILED)/.ready
SOURCES := $(shell find src scripts -type f -not -name '*.pyc' -not -name '*.so')

# In how many processes the tests run; 0: in one, as pytest does by itself. Tests wait for other processes more than
# half of the time, so there are twice as many as processors, and no more than 8: each may start a PostgreSQL and an etcd.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? 2 * n : 8)))
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Tests start thousands of interpreters: without bytecode each would compile the package again, and pytest all tests.
export PYTHONDONTWRITEBYTECODE :=

# mypy takes longer than the others together: it begins first, and they run beside it.
LINTS := lint-types lint-style lint-imports lint-security

# Which tests `make test` runs; empty: all of them, after the lint.
TESTS ?=

# What `make run` shows, on which store; each of them is started for it and gone afterwards.
STORE ?= sqlite
STORES := sqlite postgres etcd
RUN_ON_sqlite = $(BIN)/python -m leasehold.demo
RUN_ON_etcd = $(BIN)/python -m leasehold.testing.etcd $(BIN)/python -m leasehold.demo --store {url}
RUN_ON_postgres = $(BIN)/python -m leasehold.testing.postgres $(BIN)/python -m leasehold.demo --store {url}
NEEDS_sqlite := $(RUNS)

.DEFAULT_GOAL := help
.PHONY: help run test check browser pictures many lint linted bytecode $(LINTS) format wheel bench docs prove mutants faults faults-long fuzzer clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(or $(NEEDS_$(STORE)),$(READY)) ## see it work: a server with its live page and busy agents (STORE=postgres or etcd: on one of its own)
	$(if $(RUN_ON_$(STORE)),$(RUN_ON_$(STORE)),$(error there is no STORE=$(STORE); there are $(STORES)))

test: $(if $(TESTS),$(READY),linted browser) ## lint, then all tests with the settings of CI (TESTS=…: these alone, without lint)
	$(PYTEST) $(TESTS)

check: linted ## lint, then the tests that are quick and start no server, browser, PostgreSQL or etcd
	$(PYTEST) -q $$($(BIN)/python -m tests.kit.selection)
	@$(BIN)/python -m tests.kit.selection --left-out

linted: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 $(LINTS) bytecode

browser: $(READY) ## find Chromium for the tests of the page, or try to install it; says so if it cannot
	@$(BIN)/python -m tests.kit.browsing

pictures: $(READY) ## take the pictures of the page for the documentation, into docs/images
	LEASEHOLD_SCREENSHOTS=docs/images $(BIN)/python -m tests.kit.pictures

many: $(READY) ## measure the page with 5,000 leases and 200 events a second for a minute
	LEASEHOLD_PROVE=1 $(BIN)/python -m pytest -q -s -o timeout=0 tests/server/dashboard/test_many.py

lint: $(READY) ## style, types, who may import whom, and known mistakes of security
	@$(MAKE) --no-print-directory --jobs 2 $(LINTS)

lint-types:
	$(BIN)/python -m mypy

lint-style:
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

lint-imports:
	$(BIN)/python $(BIN)/lint-imports --no-logo

lint-security:
	$(BIN)/python -m bandit --quiet --configfile pyproject.toml --recursive src scripts hatch_build.py
	@$(BIN)/python scripts/audit.py

# The bytecode of the tests, made once beside mypy: on a fresh machine each of pytest's processes would make all of it.
# What is wrong with a test is said when the tests run.
bytecode:
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true

format: $(READY) ## let ruff put the code in shape
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

wheel: $(READY) ## build the compiled wheel for this Python into dist/ (needs a C compiler)
	@$(BIN)/python -m tests.compiled.building dist

bench: $(READY) ## measure the speed of the compiled package, each figure as a ratio within one run (QUICK=1: in three minutes)
	@if $(BIN)/python -m tests.compiled.building --can; then \
	  $(MAKE) --no-print-directory $(COMPILED_READY) && exec $(COMPILED)/bin/python -m benchmarks; \
	else \
	  echo "*** SO THE PACKAGE IS MEASURED AS IT IS, NOT COMPILED ***" >&2; \
	  exec $(BIN)/python -m benchmarks; \
	fi

docs: $(READY) ## serve the documentation as a site at http://127.0.0.1:8000, and again after each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

prove: $(READY) ## all tests with the long settings: many more runs, steps and kills
	LEASEHOLD_PROVE=1 $(BIN)/python -m pytest -q -o timeout=0

mutants: $(READY) ## plant classic bugs one at a time; the tests must catch each
	$(BIN)/python -m tests.mutants

fuzzer: $(READY) # atheris, where there is one for this Python: the fuzzers say loudly that they did not run without it
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python $(INSTALL) --group fuzz || true

faults: fuzzer ## 64 clients and mixed faults for 3 minutes on each store, then the fuzzers (STORE=, SECONDS=: one store, shorter)
	$(BIN)/python -m leasehold.testing.faults mixed --seconds $(or $(SECONDS),180) $(if $(filter command line,$(origin STORE)),--store $(STORE))
	$(BIN)/python -m tests.fuzzing --seconds $(or $(SECONDS),60)

faults-long: $(READY) ## the same faults for 30 minutes on each store, and every single fault at full volume: some hours
	$(BIN)/python -m leasehold.testing.faults mixed --seconds 1800
	$(BIN)/python -m leasehold.testing.faults drills

clean: ## remove the virtual environment, caches and what was built
	rm -rf $(VENV) $(COMPILED) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	find src -name '*.so' -type f -delete

$(RUNS): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Leasehold needs Python 3.11 or newer, and there is no '$(PYTHON)' here." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Leasehold needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name a newer one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments: its venv or ensurepip module is missing." >&2; \
	  echo "On Debian or Ubuntu: apt install python3-venv. Elsewhere: install the full Python." >&2; exit 1; }
	@echo "Setting up $(VENV) (once, and again when pyproject.toml changes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(INSTALL) --editable '.[server]'
	@$(BIN)/python scripts/mend_environment.py
	@touch $@

# Dependency groups need pip 25.1, and a new environment may have an older one.
$(READY): $(RUNS)
	@echo "Adding the tools of development to $(VENV) (this takes a few minutes the first time) ..."
	@$(BIN)/python $(INSTALL) 'pip>=25.1'
	@$(BIN)/python $(INSTALL) --editable '.[all]' --group dev
	@$(BIN)/python scripts/mend_environment.py
	@touch $@

$(COMPILED_READY): $(READY) $(SOURCES)
	@echo "Setting up $(COMPILED) with the compiled package (once, and again when the sources change) ..."
	@rm -rf $(COMPILED)
	@$$($(BIN)/python -m benchmarks.interpreter) -m venv $(COMPILED)
	@$(BIN)/python -m tests.compiled.building $(COMPILED)/wheel $(COMPILED)/bin/python
	@$(COMPILED)/bin/python $(INSTALL) 'pip>=25.1'
	@$(COMPILED)/bin/python $(INSTALL) "$$(echo $(COMPILED)/wheel/*.whl)[all]" --group bench
	@$(COMPILED)/bin/python $(INSTALL) --no-deps --force-reinstall $(COMPILED)/wheel/*.whl
	@$(COMPILED)/bin/python scripts/mend_environment.py
	@touch $@
