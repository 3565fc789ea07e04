# Everything runs in .venv, which make creates and keeps up to date by itself; only Python 3.11 or later is needed.
#   make demo     five fake Functions hosts, one of them killed: does exclusivity hold?
#   make demo-faults   the same for two minutes of faults: partitions, lost replies, throttling, drains
#   make check    format, lint, types, arrows, and the tests without storage, processes, planted bugs and long waits
#   make test     the whole suite
#   make bench    the benchmarks, and the tables of docs/performance.md: make bench ARGS="virtual storage" for some
#   make explore  virtual worlds with the workloads of the tests: make explore ARGS="--workload chain,once"
#   make explore-all  every point of the small worlds, struck once: some hours; it goes on where it was
#   make docs     the site of the documentation, in build/docs
#   make broken   broken locks and right apps in real hosts, half a minute each: make broken ARGS="--list"
#   make clean    remove what make made
# Another interpreter: make PYTHON=python3.12 demo

VENV := .venv
BIN := $(VENV)/bin
ifndef PYTHON
PYTHON := $(shell tools/find-python)
endif
# pytest arguments of your own: make test ARGS="-k proxy"
ARGS ?=
HOSTS ?= 5
KILL ?= 1

# Each process that is started would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-faults check lint test-quick test bench explore explore-all broken docs clean venv-sim venv-test venv-dev venv-docs python

help:
	@sed -n 's/^#   //p' Makefile

demo: venv-sim
	@$(BIN)/singleton-sim --hosts $(HOSTS) --kill $(KILL)

demo-faults: venv-sim
	@$(BIN)/singleton-sim --hosts $(HOSTS) --faults all --fault-every 5s --duration 2m

test: venv-test
	@$(BIN)/python -m simulator.azurite
	@$(BIN)/python -m pytest -n 6 --dist loadgroup $(ARGS)

check: venv-dev
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint test-quick

lint: venv-dev
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/lint-imports --no-cache > $(VENV)/arrows.txt || { cat $(VENV)/arrows.txt; exit 1; }
	@tail -n 2 $(VENV)/arrows.txt
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 singleton simulator
	@$(BIN)/mypy --platform darwin --python-version 3.14 --cache-dir .mypy_cache/darwin singleton simulator
	@$(BIN)/python -m tools.prose

test-quick: venv-dev
	@$(BIN)/python -m pytest -n 3 --dist worksteal --no-processes -m "not slow and not planted" $(ARGS) tests/unit tests/docs tests/conformance tests/simulation

bench: venv-test
	@$(BIN)/python -m benchmarks $(ARGS)

explore: venv-test
	@$(BIN)/python -m tests.worlds $(ARGS)

explore-all: venv-test
	@$(BIN)/python -m tests.worlds --all $(ARGS)

broken: venv-test
	@$(BIN)/python -m tests.broken $(ARGS)

docs: venv-docs
	@$(BIN)/python -m tools.docs_site

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

venv-sim venv-test venv-dev venv-docs: venv-%: python
	@"$(PYTHON)" tools/environment.py $(VENV) $*

python:
	@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
	  echo "Python 3.11 or later is needed, and $(if $(PYTHON),$(PYTHON) is not that,none is on PATH)." \
	    "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 3; }
