# The same words for a person and in CI. Each target does nothing that is done already.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
WORKERS ?= 3
# What the sandbox image is built from, when it is not to be chosen: make setup FROM=debian:trixie-slim
FROM ?=

.PHONY: help setup images run test test-vm check format bench peers doctor clean

help:  ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

.venv/.installed: pyproject.toml .ci/python-environment
	@PYTHON='$(PYTHON)' .ci/python-environment
	@touch $@

setup: .venv/.installed  ## virtual environment, engine, sandbox images
	@$(BIN)/sandboxed-tools setup $(if $(FROM),--from '$(FROM)')

images: setup  ## list the images that calls run in
	@$(BIN)/sandboxed-tools images list

run: setup  ## run a hostile script, and watch it do no harm
	@$(BIN)/sandboxed-tools demo $(ARGS)

test: setup  ## the test suite, against the real engine
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-vm: setup  ## doctor, conformance and abuse corpus in an emulated Debian 13, apart from make test
	@$(BIN)/python -m tests.vm $(ARGS)

check: .venv/.installed  ## lint, format, types, layers, our own tools and their defaults
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/sandboxed-tools lint src/sandboxed_tools examples
	@$(BIN)/sandboxed-tools defaults check

format: .venv/.installed  ## put the code into the house's format
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: setup  ## measure: warm and cold calls beside the usual ways
	@mkdir -p docs/benchmarks
	@$(BIN)/python -m benchmarks.latency --json docs/benchmarks/latency.json \
	  --svg docs/benchmarks/latency.svg $(ARGS)
	@$(BIN)/python benchmarks/moved_calls.py
	@$(BIN)/python benchmarks/lint.py

.bench-venv/.installed:
	@$(PYTHON) -m venv .bench-venv
	@.bench-venv/bin/pip install --quiet 'llm-sandbox[docker]' 'autogen-ext[docker]' testcontainers
	@touch $@

peers: .bench-venv/.installed  ## install other libraries, apart, for make bench to measure too

doctor: setup  ## what is really enforced here
	@$(BIN)/sandboxed-tools doctor

clean:  ## remove what dead runs left, then caches and the virtual environment
	@if [ -x $(BIN)/sandboxed-tools ]; then $(BIN)/sandboxed-tools gc || true; fi
	@rm -rf .venv .vm .bench-venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
