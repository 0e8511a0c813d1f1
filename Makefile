# Everything a contributor runs. The first target that needs .venv sets it up; all you have to install is make and
# Python 3.11 or newer.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
RECALL_VENV := .venv-bench-recall
RECALL_READY := $(RECALL_VENV)/.ready
GOVERNANCE_VENV := .venv-bench-governance
GOVERNANCE_READY := $(GOVERNANCE_VENV)/.ready

# If this is set, every process of a test compiles its imports again, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?=
# Tests run in this many processes; an idle one takes tests from the others.
JOBS ?= 3
PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal
# How often `make fuzz` runs the deep tests. It also compares expressions with JSONata's own suite and with its reference
# implementation if JSONATA_SUITE (the folder test/test-suite of jsonata-js) and JSONATA_JS (its npm package) are set.
ROUNDS ?= 1
# Extra arguments: for pytest in `test`, `fuzz` and `coverage`, for the program in `serve`, `soak` and `bench-…`.
ARGS ?=
# The version that `make release` builds.
VERSION ?=
# The conversations for `make bench-quality` and `make bench-memory`; without them they say where to get some.
DATA ?=
# uv installs many times faster than pip. If it is not available or cannot reach the packages (it does not read pip's
# configuration), or with USE_UV=no, pip is used.
USE_UV ?= yes

.DEFAULT_GOAL := help
.PHONY: help setup test check types style compiled browser hooks release format reference fuzz failover soak package coverage serve bench-facts bench-recall bench-quality bench-memory bench-abl bench-mashin bench-workflow bench-server bench-postgres bench governance governance-peers constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## set up .venv: the project, editable, and the development tools

test: $(READY) browser ## check, then run every test (ARGS=... goes to pytest)
	@$(MAKE) --no-print-directory -j2 types style compiled
	$(PYTEST) $(ARGS)

# Otherwise, each process that runs tests would compile all of them.
compiled: $(READY)
	@$(BIN)/pytest --collect-only --quiet >$(VENV)/collected.txt || { cat $(VENV)/collected.txt; exit 1; }

# The type check takes longer than all the rest, and one core, so the rest runs in parallel.
check: $(READY) ## formatting, lint, types, prose, import layers, the generated client
	@$(MAKE) --no-print-directory -j2 types style

types: $(READY)
	$(BIN)/pyright

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/prose.py
	$(BIN)/python -m memoranda.client.generate --check

# The tests of the web pages use any Chromium; without one they are skipped, and say so.
browser: ## install a browser for the tests of the web pages, if possible
	@for name in "$$MEMORANDA_BROWSER" chromium chromium-browser google-chrome google-chrome-stable; do \
	    if [ -n "$$name" ] && command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing chromium for the tests of the web pages"; \
	    apt-get update -qq >/dev/null 2>&1; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 && exit 0; \
	fi; \
	echo "There is no browser: tests of the web pages are skipped. Install chromium, or name one: MEMORANDA_BROWSER=…"

hooks: ## make git check each commit and its message
	git config core.hooksPath tools/hooks

release: $(READY) ## build the package of VERSION=x.y.z, check it, and print the notes and what to do next
	$(BIN)/python tools/release.py $(VERSION)

format: $(READY) ## apply the formatter and the safe lint fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

reference: $(READY) ## generate the OpenAPI document, the sync client, the types for asyncio, the reference and conformance pages
	$(BIN)/python -m memoranda.server.openapi > $(VENV)/openapi.json && mv $(VENV)/openapi.json docs/openapi.json
	$(BIN)/python -m memoranda.client.generate
	$(BIN)/python tools/async_types.py
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/conformance.py
	$(BIN)/python tools/governance.py --promises

fuzz: $(READY) ## the tests marked slow or deep, at full depth (ROUNDS=5: five times, with new random input each time)
	@set -e; round=1; while [ $$round -le $(ROUNDS) ]; do \
	    echo "round $$round of $(ROUNDS)"; \
	    MEMORANDA_DEPTH=deep $(PYTEST) -m "slow or deep" $(ARGS); \
	    round=$$((round + 1)); \
	done

failover: $(READY) ## PostgreSQL's primary is killed and frozen under load, ten times each way (ROUNDS=20: twenty times)
	FAILOVER_ROUNDS=$(if $(filter file,$(origin ROUNDS)),10,$(ROUNDS)) $(BIN)/pytest tests/proofs/test_failover.py -m "" -rA $(ARGS)

soak: $(READY) ## half an hour of everything at once, with processes killed every minute (ARGS="--minutes 3")
	$(BIN)/python bench/soak.py $(ARGS)

package: $(READY) ## build the package, install it into empty environments, and test it there
	$(BIN)/pytest tests/package -m package $(ARGS)

coverage: $(READY) ## run every test and report the branches that none of them takes
	$(PYTEST) --cov --cov-report=term-missing $(ARGS)

serve: $(READY) ## start a server with demo data in build/demo, or on MEMORANDA_DB (ARGS="--port 9000")
	@$(BIN)/python -m memoranda.server.demo $(ARGS)

bench-facts: $(BENCH_READY) ## facts compared with other projects (ARGS=... goes to bench/facts.py)
	$(BENCH_VENV)/bin/python bench/facts.py $(ARGS)

bench-recall: $(RECALL_READY) ## semantic memory compared with other projects, and how it scales (ARGS=... goes to bench/recall.py)
	$(RECALL_VENV)/bin/python bench/recall.py $(ARGS)

bench-quality: $(READY) ## the quality of recall (DATA=path to LoCoMo's JSON)
	$(BIN)/python bench/quality.py $(DATA) $(ARGS)

bench-memory: $(READY) ## recall over everything, learning, contexts, a flood (DATA=path to LoCoMo's JSON for the quality)
	$(BIN)/python bench/memory.py $(DATA) $(ARGS)

bench-abl: $(BENCH_READY) ## ABL agents: turns, conditions, checks, idle sessions (ARGS=... goes to bench/abl.py)
	$(BENCH_VENV)/bin/python bench/abl.py $(ARGS)

bench-mashin: $(READY) ## mashin machines: steps, checks, verifications, replays (ARGS=... goes to bench/mashin.py)
	$(BIN)/python bench/mashin.py $(ARGS)

bench-workflow: $(READY) ## workflows: steps, records, parallel blocks, loading (ARGS=... goes to bench/workflow.py)
	$(BIN)/python bench/workflow.py $(ARGS)

bench: $(READY) $(BENCH_READY) $(RECALL_READY) ## every benchmark, with results in docs/benchmarks (DATA=… for quality and memory)
	$(BIN)/python bench/everything.py $(if $(DATA),--data $(DATA)) $(ARGS)

governance: $(READY) ## sixty requirements on ours, on stores that must fail, and on peers (ARGS="--write", "--model NAME")
	$(BIN)/python tools/governance.py $(ARGS)

governance-peers: $(GOVERNANCE_READY) ## set up the environment with the peers that `make governance` measures

bench-server: $(READY) ## the server compared with the engine behind it (ARGS=... goes to bench/server.py)
	$(BIN)/python bench/server.py $(ARGS)

bench-postgres: $(BENCH_READY) ## PostgreSQL beside raw statements, an older tree and a peer (ARGS="--quick --base FOLDER")
	$(BENCH_VENV)/bin/python bench/postgres.py $(ARGS)

# If a package has dropped our oldest Python, the older of its two versions works for all.
constraints: $(READY) ## resolve constraints.txt again from pyproject.toml (needs uv)
	@printf 'editables\nhatchling\npip\nuv\n' > $(VENV)/build-tools.in
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --group dev \
	    --no-header --no-annotate --no-emit-index-url --output-file $(VENV)/resolved.txt \
	    pyproject.toml $(VENV)/build-tools.in
	@{ grep '^#' constraints.txt; sed -e 's/ *;.*//' -e 's/\[.*\]//' $(VENV)/resolved.txt \
	    | awk -F== '!seen[$$1]++'; } > $(VENV)/constraints.txt
	@mv $(VENV)/constraints.txt constraints.txt

clean: ## remove the environments and every cache
	rm -rf $(VENV) $(BENCH_VENV) $(RECALL_VENV) $(GOVERNANCE_VENV) build dist .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

comma := ,

# $(call install,FOLDER,WHAT,PINS): create an environment in FOLDER and install WHAT into it, at the versions pinned in
# constraints.txt, or in the file PINS.
# Each interpreter is started, not only looked up: a version manager's shim can exist and still refuse to run.
define install
@set -e; python=; \
for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
    if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
    then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
    echo "error: no Python 3.11 or newer with its venv module was found (tried: $(or $(PYTHON),python3.13 python3.12 python3.11 python3))." >&2; \
    echo "Install one (Debian and Ubuntu: also the package python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
    exit 1; \
fi; \
echo "Setting up $(1) with $$("$$python" --version)"; \
"$$python" -m venv --clear $(1); \
if [ "$(USE_UV)" = yes ] \
    && $(1)/bin/python -m pip install --quiet -c $(or $(3),constraints.txt) uv 2>/dev/null \
    && $(1)/bin/uv pip install --quiet --python $(1)/bin/python -c $(or $(3),constraints.txt) -b constraints.txt $(2); \
then :; else \
    echo "Installing with pip, without uv; this takes a little longer"; \
    $(1)/bin/python -m pip install --quiet --upgrade -c constraints.txt pip; \
    $(1)/bin/python -m pip install --quiet -c $(or $(3),constraints.txt) --build-constraint constraints.txt $(2); \
fi; \
touch $(1)/.ready
endef

$(READY): pyproject.toml constraints.txt
	$(call install,$(VENV),--group dev -e .)

$(BENCH_READY): pyproject.toml constraints.txt bench/requirements.txt
	$(call install,$(BENCH_VENV),-r bench/requirements.txt -e '.[postgres$(comma)server]')

# One of the other projects needs an older protobuf than our tools.
build/constraints-recall.txt: constraints.txt
	@mkdir -p build && grep -v '^protobuf==' constraints.txt > $@

$(RECALL_READY): pyproject.toml build/constraints-recall.txt bench/requirements-recall.txt
	$(call install,$(RECALL_VENV),-r bench/requirements-recall.txt -e .,build/constraints-recall.txt)

$(GOVERNANCE_READY): pyproject.toml build/constraints-recall.txt bench/requirements-recall.txt bench/requirements-governance.txt
	$(call install,$(GOVERNANCE_VENV),-r bench/requirements-governance.txt -e .,build/constraints-recall.txt)
