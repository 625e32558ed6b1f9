# One command each, on a fresh machine: `make demo` shows the tool at work, `make test` checks all,
# `make zoo` instruments hundreds of real models (`make zoo OPTIONS=--short`: a few), `make overhead`
# measures what watching costs (`OPTIONS=--quick`: a look), `make storage` what storing does,
# `make report-benchmark` what a page of 12 million numbers takes,
# `make pages` writes the pages of the documentation that are made of the code.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test zoo overhead storage report-benchmark pages clean

demo: .venv/installed
	$(BIN)/python examples/digits_cnn.py

test: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 TAIYI_SCREENSHOTS=build/screenshots \
		$(BIN)/python -m pytest --numprocesses auto --dist worksteal
	$(BIN)/python tests/check_wheel.py

pages: .venv/installed
	$(BIN)/python -c 'from taiyi_fx.catalogue import page; print(page(), end="")' > docs/reference/quantities.md

zoo: .venv/zoo-installed
	$(BIN)/python -m benchmarks.zoo $(OPTIONS)

overhead: .venv/bench-installed
	$(BIN)/python -m benchmarks.overhead $(OPTIONS)

storage: .venv/bench-installed
	$(BIN)/python -m benchmarks.storage $(OPTIONS)

report-benchmark: .venv/installed
	$(BIN)/python -m benchmarks.report $(OPTIONS)

.venv/bench-installed: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

# Both ask for the torch that they were built with; the models themselves don't need it.
.venv/zoo-installed: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[zoo]'
	$(BIN)/python -m pip install --quiet --no-deps torchvision timm
	touch $@

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info probes.svg
