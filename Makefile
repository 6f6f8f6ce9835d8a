# Everything a person or a pipeline does here. `make` alone explains.

PYTHON ?= python3
VENV   := .venv
DEMO   := .demo-venv
DEMO_LC := .demo-langchain-venv
MUTANTS := .mutants-venv
BENCH  := .bench-venv
FUZZ   := .fuzz
BIN    := $(VENV)/bin
OWN    := . proto/python clients/python plugins/audit_webhook plugins/gates_http plugins/gates_manifest
OWN_TEST := $(OWN) clients/evals clients/langchain clients/loadgen clients/openai_agents plugins/conformance plugins/lifecycle_examples plugins/runner_langchain plugins/connector_mcp plugins/runner_a2a plugins/flags_openfeature plugins/flags_unleash
PROJECTS := pyproject.toml $(wildcard proto/python/pyproject.toml clients/*/pyproject.toml plugins/*/pyproject.toml)
TYPED  := sidecar proto/python/subagents_errors proto/python/subagents_legacy proto/python/subagents_tls clients/python/subagents_client clients/loadgen/subagents_loadgen clients/langchain/subagents_langchain clients/openai_agents/subagents_openai_agents clients/evals/subagents_evals plugins/conformance/sidecar_conformance plugins/audit_webhook/sidecar_audit_webhook plugins/gates_http/sidecar_gates_http plugins/gates_manifest/sidecar_gates_manifest plugins/lifecycle_examples/sidecar_lifecycle_examples plugins/runner_langchain/sidecar_runner_langchain plugins/connector_mcp/sidecar_connector_mcp plugins/runner_a2a/sidecar_runner_a2a plugins/flags_openfeature/sidecar_flags_openfeature plugins/flags_unleash/sidecar_flags_unleash examples scripts tests
LINTED := .
TORTURE_SECONDS = $(or $(SIDECAR_TORTURE_SECONDS),60)
FUZZ_SECONDS ?= 10
PYTEST ?= $(BIN)/python -m pytest
# Containers often forbid it, and then each of a thousand processes that the tests start compiles everything anew.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help demo demo-langchain test check coverage lint types protos bench growth scale torture mutants fuzz sbom licences proto lock evidence clean

help: ## what can be asked for
	@printf '\nThe dispatch sidecar. Needs python 3.11 or newer (with venv), git and make; nothing else.\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS="$$(printf '\t')" read -r name what; do printf '  make %-14s %s\n' "$$name" "$$what"; done
	@printf '\nStart with `make demo`. Before a commit: `make check`; what the pipeline runs: `make test`.\n'
	@printf 'Another interpreter: make PYTHON=python3.12 ...   Some tests only: make test ARGS="-k cap"\n\n'

# -- the virtual environments; rebuilt only when a lock or a pyproject has changed -------------------------------

define install
	@printf '== %s: installing %s (once; again only when the lock changes)\n' "$(1)" "$(2)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: 3.11 or newer, or make PYTHON=..."; exit 1; }
	@rm -rf $(1)
	@$(PYTHON) -m venv $(1) || { echo "no venv module: on Debian, apt-get install python3-venv"; exit 1; }
	@$(1)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r $(2)
	@printf '== %s: installing our own packages\n' "$(1)"
	@$(1)/bin/python -m pip install -qq --disable-pip-version-check --no-index --no-build-isolation --no-deps $(addprefix -e ,$(3))
	@touch $@
endef

$(VENV)/.ready: requirements/test.txt $(PROJECTS)
	$(call install,$(VENV),requirements/test.txt,$(OWN_TEST))

$(DEMO)/.ready: requirements/demo.txt $(PROJECTS)
	$(call install,$(DEMO),requirements/demo.txt,$(OWN))

$(DEMO_LC)/.ready: requirements/langchain-demo.txt $(PROJECTS)
	$(call install,$(DEMO_LC),requirements/langchain-demo.txt,$(OWN) clients/evals clients/langchain)

$(MUTANTS)/.ready: requirements/mutants.txt $(PROJECTS)
	$(call install,$(MUTANTS),requirements/mutants.txt,$(OWN_TEST))

# Restate's server is a package of npm; without it, or without npm, its rows of the bench say so.
$(BENCH)/.ready: requirements/bench.txt $(wildcard requirements/restate/*.json) $(PROJECTS)
	$(call install,$(BENCH),requirements/bench.txt,$(OWN_TEST))
	@mkdir $(BENCH)/restate && cp requirements/restate/*.json $(BENCH)/restate
	@cd $(BENCH)/restate && npm ci --ignore-scripts --no-audit --no-fund --silent || echo '== $(BENCH): without Restate, which needs npm'

# Without a wheel for this machine the lock is empty here, and the fuzzer mutates blindly.
$(FUZZ)/.ready: requirements/fuzz.txt $(VENV)/.ready
	@rm -rf $(FUZZ) && mkdir $(FUZZ)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: --target $(FUZZ) -r requirements/fuzz.txt
	@touch $@

# -- for people -----------------------------------------------------------------------------------------------------

demo: $(DEMO)/.ready ## watch a rollout and a conversation, 20 seconds; ARGS=--full: all steps and turns
	@$(DEMO)/bin/python -m examples.demo $(ARGS)

demo-langchain: $(DEMO_LC)/.ready ## the same under the LangChain orchestrator; MODEL=openai:... for a real model
	@$(DEMO_LC)/bin/python -m examples.demo --orchestrator langchain $(ARGS)

check: $(VENV)/.ready ## the quick part of the tests (about a minute on two quiet cores)
	@$(BIN)/python -m scripts.run_parts check $(ARGS)

test: $(VENV)/.ready ## everything the pipeline runs (about twenty minutes on two cores); ends with the time of each part
	@$(BIN)/python -m scripts.run_parts test $(ARGS)

coverage: $(VENV)/.ready ## which lines and branches of sidecar/ the unit tests run; twice their time
	@mkdir -p .pytest_cache
	@$(BIN)/python -m coverage run -m pytest -q tests/unit $(ARGS)
	@$(BIN)/python -m coverage report

bench: $(BENCH)/.ready ## compare with a bare gRPC stream, LangGraph, DBOS and Restate on this machine
	@$(BENCH)/bin/python -m scripts.bench $(ARGS)

growth: $(VENV)/.ready ## what grows with use: memory, CPU, files (within a quarter of an hour); ARGS="--draw docs/benchmarks"
	@$(BIN)/python -m scripts.growth $(ARGS)

scale: $(VENV)/.ready ## what one PostgreSQL carries: up to 20 sidecars, directly and through PgBouncer (six minutes)
	@GRPC_ENABLE_FORK_SUPPORT=0 $(BIN)/python -m scripts.scale $(ARGS)

# How often each long run strikes; a smaller number gives a shorter run. Each test has a limit of its own that grows with
# the strikes: the one of twenty minutes for every other test would end a long run in its middle.
torture: export SIDECAR_TORTURE_KILLS ?= 1000
torture: export SIDECAR_TORTURE_POWER_CUTS ?= 1000
torture: export SIDECAR_TORTURE_STOPS ?= 200
torture: export SIDECAR_TORTURE_DATABASE_FAULTS ?= 100
torture: export SIDECAR_TORTURE_FAILOVERS ?= 5
torture: export SIDECAR_TORTURE_CONNECTIONS ?= 4800
torture: export SIDECAR_TORTURE_FLOODS ?= 300000
torture: export SIDECAR_TORTURE_HELD ?= 200
torture: export SIDECAR_TORTURE_DRILL ?= 10
torture: $(FUZZ)/.ready ## long runs with figures: simulations, faults of disk and database, killed and stopped processes
	@printf '== each long run takes %s s (SIDECAR_TORTURE_SECONDS); its seed repeats it (SIDECAR_TORTURE_SEED)\n' "$(TORTURE_SECONDS)"
	@SIDECAR_SCHEDULES=10000 SIDECAR_FAULTS=500 SIDECAR_TORTURE_SECONDS=$(TORTURE_SECONDS) $(PYTEST) -o faulthandler_timeout=0 -q -s tests/simulation tests/adapters/rollouts/test_postgresql_follows_the_model.py tests/adapters/records/sqlite_faults tests/system/postgres_faults tests/system/torture tests/system/drill tests/packages/installs_from_registry.py $(ARGS)
	@PYTHONPATH=$(FUZZ) $(BIN)/python -m tests.fuzz.run --seconds $(TORTURE_SECONDS)

fuzz: $(FUZZ)/.ready ## search for bytes that break a parser, guided by coverage; FUZZ_SECONDS=60 for each of 25
	@PYTHONPATH=$(FUZZ) $(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) $(ARGS)

mutants: $(MUTANTS)/.ready ## mutation tests of the rules that serve and record (twenty minutes the first time, later a few); ARGS="sidecar.core.rollout.serving": one module
	@nice $(MUTANTS)/bin/python -m scripts.mutants $(ARGS)

sbom: $(VENV)/.ready ## the bill of materials of the sidecar, CycloneDX, into dist/; ARGS="--package subagents-client": another one
	@$(BIN)/python -m scripts.supply_chain sbom $(ARGS)

licences: $(VENV)/.ready ## the licence of every dependency; ends with an error if one is unknown or not accepted
	@$(BIN)/python -m scripts.supply_chain licences $(ARGS)

# -- the parts of `check` -------------------------------------------------------------------------------------------

lint: $(VENV)/.ready ## style only
	@$(BIN)/ruff check $(LINTED)
	@$(BIN)/ruff format --check --quiet $(LINTED) || { echo 'not formatted: run $(BIN)/ruff format .'; exit 1; }

types: $(VENV)/.ready ## types only
	@$(BIN)/mypy --no-error-summary $(TYPED)

protos: $(VENV)/.ready ## proto style, compatibility with the last release, generated code is current
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.check_protos

# -- for who changes things -----------------------------------------------------------------------------------------

proto: $(VENV)/.ready ## generate the Python code of the protos again
	@$(BIN)/python -m scripts.generate_protos

lock: ## resolve the locks again (needs uv)
	@$(PYTHON) -m scripts.lock_requirements

evidence: $(VENV)/.ready ## run the tests of isolation and required blocks, and write the page that auditors read
	@$(BIN)/python -m scripts.evidence $(ARGS)

clean: ## remove the virtual environments and caches
	rm -rf $(VENV) $(DEMO) $(DEMO_LC) $(MUTANTS) $(BENCH) $(FUZZ) mutants .run .mypy_cache .ruff_cache .pytest_cache .hypothesis
