# The two main commands are make demo and make test. They install what they need in .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Words that make a reader stop; `make lint` finds them in these files.
WORDED := *.md pyspark_commitlog arrow browse classic cli gateway jobs mirror pipeline protocol registry storage conf docs benchmarks tests
UNCLEAR := [Aa]new|[Mm]eanwhile|[Ww]hoever|[Tt]old of|(that|which) (is|are) none
COMPILED := pyspark_commitlog arrow browse classic cli gateway jobs mirror pipeline protocol registry storage benchmarks tests/support
PYTHON ?= python3.11

# Spark's workers must run the Python of .venv; without this they run the system's.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_CONF_DIR := $(CURDIR)/conf
unexport SPARK_HOME PYTHONPATH

.PHONY: help demo test test-all test-matrix lint types prepared unit torture install java python bench docs notebooks wheel release clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: java install  ## write 336,776 flights to a topic, read them back and compare; run again to resume
	@$(BIN)/python jobs/demo.py

test: java install  ## run lint, types and tests, which CI runs before make test-all
	@echo "make test: lint, types and the tests take 15 to 20 minutes on two idle cores"
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint prepared
	@$(MAKE) --no-print-directory --jobs=2 types unit

test-all: java install  ## run the tests that make test leaves out: other Kafkas, clients in other languages, long suites, and the alerts in conf/
	@$(MAKE) --no-print-directory unit PYTEST_ARGS="--all -m only_all $(PYTEST_ARGS)"

test-matrix: java install  ## run tests in their other modes and on other stores, such as the sink on an object store
	@$(MAKE) --no-print-directory unit PYTEST_ARGS="--all --matrix -m matrix $(PYTEST_ARGS)"

lint: install  ## check rules and format with ruff, and the wording
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@grep -rnwE --include='*.py' --include='*.md' --exclude-dir=golden '$(UNCLEAR)' $(WORDED) && { \
	  echo "The lines above have words that make readers stop ($(UNCLEAR)): say it more plainly."; exit 1; } >&2 || test $$? = 1

types: install  ## check types with mypy, strictly
	$(BIN)/mypy

# Puts what tests need of Kafka's and Spark's jars into the user's cache.
prepared: java install
	$(BIN)/python -m tests.support.prepare

unit: prepared  ## run the tests, two modules at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

torture: java install  ## run all long suites, or one: make torture SUITE=damage MINUTES=10 SEED=1
	$(BIN)/python -m tests.torture $(SUITE) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

bench: java install $(VENV)/bench-installed  ## compare with Kafka, Delta and others in benchmarks/README.md (BENCH_ARGS="reading codec")
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

# If Python must not write bytecode (PYTHONDONTWRITEBYTECODE, as in many containers), every process of Spark would
# compile the project again, in 0.2 s. So it is compiled here; pip compiles what it installs.
install: $(VENV)/installed  ## create the environment in .venv; again only if pyproject.toml changed
	@$(BIN)/python -m compileall -q $(COMPILED)

$(VENV)/installed: pyproject.toml | python
	@echo "Creating the environment in $(VENV) (some minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --editable '.[demo,dev]' | sed -un 's/^\(Collecting\|Installing\|Successfully installed\) \([^ ]*\).*/  \1 \2/p'
	@$(BIN)/python -m pyspark_commitlog.pipeline.workers.precompile
	@touch $@

$(VENV)/bench-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

# A shim may exist without the version it stands for, so the programs are run rather than searched for.
python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 not found: '$(PYTHON)' does not exist, is older, or lacks venv."; \
	  echo "Install it (Debian: apt-get install python3.11 python3.11-venv) or name yours: make PYTHON=/path/to/python3.11"; \
	  exit 1; } >&2

java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;T;q' || true); \
	[[ "$$version" -ge 17 ]] || { \
	  echo "Java 17 not found: '$$java' is $${version:+version }$${version:-missing}."; \
	  echo "Install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to yours."; \
	  exit 1; } >&2

docs: install  ## build the documents as a site in data/site
	$(BIN)/python docs/render.py
	$(BIN)/python -m mkdocs build --strict

notebooks: java install  ## run the notebooks and store their output
	$(BIN)/python notebooks/render.py

wheel: install  ## build a wheel in dist/
	$(BIN)/python -m hatchling build -t wheel

# For each release: what pip installs with all extras, by its names, versions and licences, and the checksums to sign.
release: install $(VENV)/release-installed  ## build wheel, sdist, the list of their parts (SBOM) and checksums in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(PYTHON) -m venv dist/installed
	dist/installed/bin/python -m pip install --quiet "$$(ls dist/*.whl)[all]"
	$(BIN)/cyclonedx-py environment dist/installed/bin/python --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json
	rm -rf dist/installed
	cd dist && sha256sum * > SHA256SUMS

$(VENV)/release-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	@touch $@

clean:  ## remove what the demo and the tests made; keep the environment
	rm -rf data dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
