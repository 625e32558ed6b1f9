# One command each, on a fresh machine: `make demo` shows the tool at work, `make test` checks all.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test clean

demo: .venv/installed
	$(BIN)/python examples/digits_cnn.py

test: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest
	$(BIN)/python tests/check_wheel.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info probes.svg
