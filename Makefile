# Each target sets up what it needs: a virtual environment in .venv with the pinned versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TESTS_INSTALLED := $(VENV)/.installed-tests
SPARK_INSTALLED := $(VENV)/.installed-spark
DOCS_INSTALLED := $(VENV)/.installed-docs
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.PHONY: help demo lint test test-spark check fuzz bench docs clean

help:
	@echo "make demo   three generated worlds (names, papers, customers): what the company adds, in a table and a page"
	@echo "make test   the test suite"
	@echo "make test-spark   the tests of the engine Spark, in local mode; installs PySpark, needs Java 17"
	@echo "make lint   ruff (format and rules) and mypy"
	@echo "make check  lint and the test suite"
	@echo "make fuzz   forged model files, mangled inputs, any command: TRIES=10000, SEED=0, ONLY=readers"
	@echo "make bench  speed and memory beside python-crfsuite, mixture and skip chain beside the CRF, stacking, linkage"
	@echo "make docs   the guides as a site, in site/index.html; needs no network to be read"
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

test: $(TESTS_INSTALLED)
	$(BIN)/python -m pytest

# PySpark is large: apart from the rest, which skips these tests where it is not there.
$(SPARK_INSTALLED): $(TESTS_INSTALLED)
	$(INSTALL) '.[dev,bench,spark]'
	touch $@

test-spark: $(SPARK_INSTALLED)
	$(BIN)/python -m pytest -n 0 -m spark tests/engines

lint: $(TESTS_INSTALLED)
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

check: lint test

TRIES ?= 10000
SEED ?= 0
ONLY ?= all

fuzz: $(TESTS_INSTALLED)
	$(BIN)/python tests/fuzz/fuzz.py --tries $(TRIES) --seed $(SEED) --only $(ONLY)

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

clean:
	rm -rf $(VENV) .numba_cache .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
