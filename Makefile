# Each works on a fresh machine:
#   make demo              the tool at work
#   make test              checks the code, in about ten minutes
#   make ci                what has to hold before anything lands: also inductor, pages, kills, ranks, a short zoo, docs
#   make test-all          the same as make ci with all cases, without docs; before a release
#   make docs              builds the documentation into build/docs and runs its code
#   make zoo               instruments hundreds of real models; OPTIONS=--short: a few
#   make zoo-inside        the same for transformers alone, with attention, routers, optimizer and spectra
#   make zoo-libraries     those of a hundred other packages, which it installs; a part of make zoo
#   make overhead          measures what watching costs; OPTIONS=--quick: a look
#   make gpu               where there is a GPU: tests what needs one, and measures what watching costs
#   make ranks             tests several ranks, compiled ones too; CASES=few: some
#   make storage           measures what storing costs
#   make large-run         writes a run of 10^8 numbers, 845 MB, and queries it
#   make faults            trains with planted faults, and without: are culprits found, and found alone?
#   make soak              trains 20,000 steps beside a reader: memory, files, threads, time a step
#   make costs             measures each quantity and writes the documentation's page of it
#   make report-benchmark  measures a page of 12 million numbers
#   make pages             writes the pages of the documentation that are made of the code
#   make pictures          makes its pictures, with a Chromium of the system
PYTHON ?= python3
BIN := .venv/bin
# Bytecode is written, for the many processes that tests start.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= TAIYI_SCREENSHOTS=build/screenshots \
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

.PHONY: demo check test ci test-all docs zoo zoo-inside zoo-libraries overhead gpu ranks short-zoos storage large-run faults soak costs report-benchmark pages pictures clean

demo: .venv/installed
	$(BIN)/python examples/digits_cnn.py

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --threads
	$(BIN)/lint-imports
	$(BIN)/python tests/check_wheel.py

test: check
	$(PYTEST) -m 'not slow and not exhaustive'

ci: check
	$(PYTEST) -m 'not exhaustive'
	$(MAKE) .venv/zoo-installed
	$(MAKE) --jobs=2 --output-sync=target ranks short-zoos CASES=few
	$(MAKE) docs

test-all: check
	$(PYTEST) -m 'not sample'
	$(MAKE) .venv/zoo-installed
	$(MAKE) --jobs=2 --output-sync=target ranks short-zoos

# In one process, beside ranks which wait for each other.
short-zoos:
	$(MAKE) zoo OPTIONS=--short
	$(MAKE) zoo-inside OPTIONS=--short

CASES ?= all
ranks: .venv/installed
	TAIYI_RANKS=$(CASES) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/distributed/test_matrix.py

docs: .venv/installed
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest docs README.md --numprocesses auto --dist loadfile
	@echo 'open build/docs/index.html'

pages: .venv/installed
	$(BIN)/python docs/make_reference.py

pictures: .venv/installed
	$(BIN)/python docs/make_architecture.py
	$(BIN)/python docs/make_pictures.py

# The short one, which CI runs, takes the many libraries only where they are installed.
zoo: .venv/zoo-installed $(if $(findstring --short,$(OPTIONS)),,.venv/zoo-libraries-installed)
	$(BIN)/python -m benchmarks.zoo $(OPTIONS)

zoo-inside: .venv/zoo-installed
	$(BIN)/python -m benchmarks.zoo_inside $(OPTIONS)

zoo-libraries: .venv/zoo-libraries-installed
	$(BIN)/python -m benchmarks.zoo --family libraries $(OPTIONS)

overhead: .venv/bench-installed
	$(BIN)/python -m benchmarks.overhead $(OPTIONS)

# Ten minutes at most; GPU_PYTHON=python3 takes an environment that is there already.
GPU_PYTHON ?= $(BIN)/python
gpu: $(if $(filter $(BIN)/python,$(GPU_PYTHON)),.venv/installed)
	$(GPU_PYTHON) -m benchmarks.gpu $(OPTIONS)

storage: .venv/bench-installed
	$(BIN)/python -m benchmarks.storage $(OPTIONS)

large-run: .venv/installed
	$(BIN)/python -m benchmarks.large_run $(OPTIONS)

# Five minutes; fails where something grows that must not, or a record is missing.
faults: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.faults --part all $(OPTIONS)

soak: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak $(OPTIONS)

costs: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quantity_costs --to docs/reference/costs.md $(OPTIONS)

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

LISTS := benchmarks/zoo_models/libraries
.venv/zoo-libraries-installed: .venv/zoo-installed $(LISTS)/packages.txt $(LISTS)/needed.txt
	$(BIN)/python -m benchmarks.zoo_install
	touch $@

.venv/installed: pyproject.toml constraints.txt
	@echo 'Setting up .venv with torch and all that the tests need: some minutes, once.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info probes.svg report.html
