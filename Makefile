# Everything here needs python3 (3.11 or newer, with venv), make and git; the C compiler, cmake and ninja come from PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test check conformance bench accuracy clean

help:
	@echo "make demo         compile a model for this machine, run it, compare it with ONNX Runtime"
	@echo "make test         the tests, then the static checks"
	@echo "make check        the static checks only: ruff, mypy, import contracts"
	@echo "make conformance  ONNX's own tests, all of them as AArch64 code too; the figures go to docs/conformance.md"
	@echo "make bench        time models beside ONNX Runtime and its like; the tables go to bench/results"
	@echo "make accuracy     what quantised networks lose on real tasks, beside ONNX Runtime's; the table goes to bench/results"
	@echo "make clean        remove the environment and build folders"

# Editable: changed Python files count at once. The C library is rebuilt when a source of it changes.
RUNTIME_SOURCES := $(wildcard runtime/CMakeLists.txt runtime/*/*.[ch])
$(BIN)/.installed: pyproject.toml $(RUNTIME_SOURCES)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mcpc needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(BIN)/.installed
	$(BIN)/mcpc demo -o out

test: $(BIN)/.installed
	$(BIN)/python -m pytest
	$(MAKE) --no-print-directory check

check: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/types_tree.py
	$(BIN)/mypy
	PYTHONPATH=build/types $(BIN)/lint-imports

conformance: $(BIN)/.installed
	$(BIN)/python -m tests.conformance

bench: $(BIN)/.installed
	$(BIN)/python bench/compare.py

accuracy: $(BIN)/.installed
	$(BIN)/python bench/accuracy.py

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
