# Two commands: make demo, make test. Everything they need is made in .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
COMPILED := pyspark_commitlog cli jobs pipeline storage benchmarks tests/support
PYTHON ?= python3.11

# Spark's workers must run the Python of .venv; without this they take the system's.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_CONF_DIR := $(CURDIR)/conf
unexport SPARK_HOME PYTHONPATH

.PHONY: help demo test lint types prepared unit torture install java python bench docs notebooks wheel clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: java install  ## write 336,776 flights to a topic, read them back, compare; again: goes on where it stopped
	@$(BIN)/python jobs/demo.py

test: java install  ## everything CI runs: lint, types, tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint types prepared
	@$(MAKE) --no-print-directory unit

lint: install  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy, strict
	$(BIN)/mypy

# What tests need of Kafka's and Spark's jars, in the user's cache.
prepared: java install
	$(BIN)/python -m tests.support.prepare

unit: prepared  ## the tests, two modules at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

torture: java install  ## all long runs, or one: make torture SUITE=damage MINUTES=10 SEED=1
	$(BIN)/python -m tests.torture $(SUITE) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

bench: java install $(VENV)/bench-installed  ## this project beside Kafka, Delta and others, into benchmarks/README.md (BENCH_ARGS="reading codec")
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

# Where Python may not keep what it compiles (PYTHONDONTWRITEBYTECODE, as in many containers), each process of Spark's
# would compile the project anew, 0.2 s; pip does this for what it installs.
install: $(VENV)/installed  ## the environment in .venv; again only when pyproject.toml changed
	@$(BIN)/python -m compileall -q $(COMPILED)

$(VENV)/installed: pyproject.toml | python
	@echo "Making the environment in $(VENV) (some minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --editable '.[demo,dev]' | sed -un 's/^\(Collecting\|Installing\|Successfully installed\) \([^ ]*\).*/  \1 \2/p'
	@$(BIN)/python -m pyspark_commitlog.pipeline.precompile
	@touch $@

$(VENV)/bench-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

# A shim may exist without the version behind it, so the programs are run, not looked for.
python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 is missing: '$(PYTHON)' is not there, is older, or lacks venv."; \
	  echo "Install it (Debian: apt-get install python3.11 python3.11-venv) or name yours: make PYTHON=/path/to/python3.11"; \
	  exit 1; } >&2

java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;T;q' || true); \
	[[ "$$version" -ge 17 ]] || { \
	  echo "Java 17 is missing: '$$java' is $${version:+version $$version, or }not there."; \
	  echo "Install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME to yours."; \
	  exit 1; } >&2

docs: install  ## the documents as a site in data/site
	$(BIN)/python docs/render.py
	$(BIN)/python -m mkdocs build --strict

notebooks: java install  ## run the notebooks and keep what they show
	$(BIN)/python notebooks/render.py

wheel: install  ## a wheel in dist/
	$(BIN)/python -m hatchling build -t wheel

clean:  ## remove what the demo and the tests made; the environment stays
	rm -rf data dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
