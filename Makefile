# Needs Python >= 3.11, make and git; everything else is installed into .venv from requirements.lock.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed
CLIENT := clients/python/hostsvc-client
CLIENTS := $(CLIENT) clients/python/hostsvc-testing
FUZZ_SECONDS ?= 600
CYCLES ?= 300
SEEDS ?= 2000
SOAK_MINUTES ?= 30

# Compiled files are kept, whatever the environment says: hundreds of processes would compile the same again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# Two workers more than a small machine has cores, as tests wait for a good third of their time.
PARALLEL := -n 4 --dist loadgroup
# Slow tests wait for processes for most of their time. None of them is taken for hung (pyproject.toml).
SLOW := -n 5 --dist loadgroup -o faulthandler_timeout=600

.DEFAULT_GOAL := help
.PHONY: help run demo test test-slow test-console test-all lint lint-types lint-client lint-imports simulate fuzz crash soak bench events client vendor screenshots dist lock

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(READY) ## set up and serve on an embedded PostgreSQL, printing what to paste next
	@$(BIN)/hostsvc serve --guide

demo: $(READY) ## the main job, start to end, shown as it happens
	@$(BIN)/hostsvc demo

test: $(READY) ## set up and run the tests for every day, about five minutes
	@$(PYTEST) $(PARALLEL) -m "not slow and not console"

test-slow: $(READY) ## whole processes, crashes, attacks, fuzzing, more simulation; Hypothesis with random seeds
	@$(PYTEST) $(SLOW) -m "(slow or hypothesis) and not (long or console)" --hypothesis-profile random

test-console: $(READY) ## the console in a real browser (needs a Chromium)
	@$(PYTEST) $(SLOW) -m console

test-all: $(READY) ## all tests, each service in a new interpreter; the API on three nodes; `simulate`, `crash` and `fuzz` in full
	@HOSTSVC_TEST_FRESH=yes $(PYTEST) $(SLOW) --hypothesis-profile random
	@HOSTSVC_TEST_NODES=3 $(PYTEST) $(SLOW) -m "not slow" tests/contract tests/web
	@HOSTSVC_TEST_NODES=3 $(PYTEST) $(SLOW) tests/attack
	@$(MAKE) --no-print-directory simulate crash
	@HOSTSVC_TEST_NODES=3 $(MAKE) --no-print-directory fuzz

lint: $(READY) ## ruff, mypy strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs=2 lint-types lint-client lint-imports

lint-types: $(READY)
	@$(BIN)/mypy
	@$(BIN)/mypy clients/python/hostsvc-testing/tests

lint-client: $(READY)
	@cd $(CLIENT) && $(CURDIR)/$(BIN)/mypy

lint-imports: $(READY)
	@$(BIN)/lint-imports

simulate: $(READY) ## the engine in SEEDS (2000) random worlds, in virtual time; SEED=n replays one
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED))

fuzz: $(READY) ## schemathesis for FUZZ_SECONDS (600), with bodies in every media type
	@$(BIN)/python -m tests.contract.fuzz --max-time $(FUZZ_SECONDS)

crash: $(READY) ## crash tests with CYCLES (300) kills, and how soon the service is ready again
	@HOSTSVC_CRASH_CYCLES=$(CYCLES) $(PYTEST) -o faulthandler_timeout=0 tests/crash
	@$(BIN)/python -m tests.crash.figures

soak: $(READY) ## mixed load and faults for SOAK_MINUTES (30): memory, descriptors and tasks stay flat
	@$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES)

bench: $(READY) ## hot paths against a bare handler; ONLY="get posts", QUICK=1, AGAINST=<commit>
	@$(BIN)/python -m tests.benchmarks $(ONLY) $(if $(QUICK),--quick) $(if $(AGAINST),--against $(AGAINST)) \
		$(if $(OUTPUT),--output $(OUTPUT))

events: $(READY) ## write the list of event types in docs/events.md
	@$(BIN)/python -m tests.contract.event_catalogue

client: $(READY) ## write the generated modules of the Python client from the API document
	@PYTHONPATH=. $(BIN)/python $(CLIENT)/scripts/generate.py

vendor: $(READY) ## copy the console's libraries from npm (needs npm) into web/static/console/vendor
	@$(BIN)/python -m tests.console.vendor

screenshots: $(READY) ## take the pictures of docs/console anew (needs a Chromium)
	@$(BIN)/python -m tests.console.screenshots

dist: $(READY) ## build wheels and sdists of the service, of its client and of the tests for agents into dist/
	@$(BIN)/python -m hatchling build
	@for each in $(CLIENTS); do (cd $$each && $(CURDIR)/$(BIN)/python -m hatchling build --directory $(CURDIR)/dist) || exit; done

lock: $(READY) ## write requirements.lock anew from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
		--upgrade --group dev pyproject.toml -o requirements.lock

$(READY): requirements.lock pyproject.toml $(CLIENTS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "hostsvc needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "setting up .venv (first time: about a minute)" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . $(CLIENTS:%=-e %)
	@touch $@
