# Each target sets up what it needs: a virtual environment in .venv with the pinned versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TESTS_INSTALLED := $(VENV)/.installed-tests
SPARK_INSTALLED := $(VENV)/.installed-spark
DOCS_INSTALLED := $(VENV)/.installed-docs
LOWEST := build/venv-lowest
LOWEST_INSTALLED := $(LOWEST)/.installed
# Of the suite, what touches most of other libraries; `make test-lowest TESTS=tests` runs all of it.
TESTS ?= tests/core tests/learning tests/inference tests/contract tests/graph/test_forged_estimators.py \
  tests/graph/test_stacked_files.py tests/graph/test_frames.py tests/linking/test_frames_out.py tests/cli/test_help_cli.py \
  tests/test_public_face.py
RELEASE_INSTALLED := $(VENV)/.installed-release
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.PHONY: help demo lint test test-spark test-lowest check fuzz faults bench docs test-docs dist mutants clean

help:
	@echo "make demo   three generated worlds (names, papers, customers): what the company adds, in a table and a page"
	@echo "make test   the test suite; COVERAGE=95 tells the share of statements of src that it runs, and fails below 95 %"
	@echo "make test-spark   the tests of the engine Spark, in local mode; installs PySpark, needs Java 17"
	@echo "make test-lowest   a part of the suite with the lowest versions of other libraries that are allowed"
	@echo "make lint   ruff (format and rules) and mypy"
	@echo "make check  lint and the test suite"
	@echo "make fuzz   forged model files, mangled inputs, any command: TRIES=10000, SEED=0, ONLY=readers"
	@echo "make faults  work killed at random moments, which has to go on to the same end: KILLS=300, SEED=0, SIZE=50 (seconds a training)"
	@echo "make bench  speed and memory beside python-crfsuite, mixture and skip chain beside the CRF, stacking, linkage"
	@echo "make docs   the guides as a site, in site/index.html; needs no network to be read"
	@echo "make test-docs   the site in a browser: its search, opened from the folder, and its reference"
	@echo "make dist   wheel and sdist, in dist/, tried in an empty environment without a compiler"
	@echo "make mutants   small mistakes in the code, one at a time: which of them no test notices: JOBS=2 (an hour)"
	@echo "make clean  remove the virtual environment and caches"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kinfolk needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing into $(VENV); the first time this takes a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

# What tests and benchmarks need besides: other libraries to compare with, data frames, a driver for the browser.
$(TESTS_INSTALLED): $(INSTALLED)
	$(INSTALL) '.[dev,bench]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/kinfolk demo

# COVERAGE=95: fails below so many per cent of the statements of src. It costs next to nothing (scripts/probes). Kernels
# are left out: machine code, which oracles hold (pyproject.toml, tool.coverage; make mutants).
COVERAGE ?=
PROBES := $(CURDIR)/build/probes

test: $(TESTS_INSTALLED)
ifeq ($(COVERAGE),)
	$(BIN)/python -m pytest
else
	$(BIN)/python scripts/probes place $(PROBES)
	KINFOLK_PROBES=$(PROBES) PYTHONPATH=$(CURDIR)/scripts/probes$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m pytest
	$(BIN)/python scripts/probes report $(PROBES) --least $(COVERAGE)
endif

# PySpark is large: apart from the rest, which skips these tests where it is not there.
$(SPARK_INSTALLED): $(TESTS_INSTALLED)
	$(INSTALL) '.[dev,bench,spark]'
	touch $@

test-spark: $(SPARK_INSTALLED)
	$(BIN)/python -m pytest -n 0 -m spark tests/engines

$(LOWEST_INSTALLED): pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable '.[dev]'
	touch $@

# Old libraries warn of each other.
test-lowest: $(LOWEST_INSTALLED)
	NUMBA_CACHE_DIR=$(CURDIR)/build/numba-lowest $(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning $(TESTS)

lint: $(TESTS_INSTALLED)
	$(BIN)/ruff format --check src tests benchmarks examples scripts
	$(BIN)/ruff check src tests benchmarks examples scripts
	$(BIN)/mypy

check: lint test

TRIES ?= 10000
SEED ?= 0
ONLY ?= all

fuzz: $(TESTS_INSTALLED)
	$(BIN)/python tests/fuzz/fuzz.py --tries $(TRIES) --seed $(SEED) --only $(ONLY)

KILLS ?= 300
SIZE ?= 50

faults: $(TESTS_INSTALLED)
	$(BIN)/python tests/faults/faults.py --kills $(KILLS) --seed $(SEED) --size $(SIZE)

bench: $(TESTS_INSTALLED)
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/chain.py
	$(BIN)/python benchmarks/mixture.py
	$(BIN)/python benchmarks/loopy.py
	$(BIN)/python benchmarks/stacked.py
	$(BIN)/python benchmarks/linkage.py
	$(BIN)/python benchmarks/reports.py

$(DOCS_INSTALLED): $(INSTALLED)
	$(INSTALL) '.[docs]'
	touch $@

docs: $(DOCS_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

test-docs: docs $(TESTS_INSTALLED)
	$(BIN)/python -m pytest -n 0 tests/browser/test_site.py

$(RELEASE_INSTALLED): $(INSTALLED)
	$(INSTALL) '.[release]'
	touch $@

dist: $(RELEASE_INSTALLED)
	$(BIN)/python scripts/dist.py

JOBS ?= 2

mutants: $(TESTS_INSTALLED)
	$(BIN)/python scripts/mutants.py --jobs $(JOBS)

clean:
	rm -rf $(VENV) .numba_cache .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
