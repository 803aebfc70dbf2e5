# Two commands do everything on a machine that has Python 3.11, pip and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help install demo test test-all fuzz lint docs format bench constraints clean
help:
	@echo "make demo    install, then train original, lean and control side by side, and say what holds"
	@echo "make test    install, then lint, type-check and run the tests;  make test-all  with every sampled test complete"
	@echo "make lint    formatting, lint, types and documentation only;  make format  fixes what it can"
	@echo "make docs    the documentation site, into build/site: open build/site/index.html"
	@echo "make fuzz    attack designs, folders, commands, data and matrices for about half an hour;  SEED=1 SCALE=0.1 for others"
	@echo "make bench   speed ratios, measured side by side on this machine"

install: $(INSTALLED)

# torch first and by its exact version: later packages then find it satisfied and bring no other build.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(INSTALLED)

demo: install
	$(BIN)/leanformer compare

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory docs

# A link that leads nowhere, a page outside the menu or a name without documentation is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: install
	$(MAKE) --no-print-directory --jobs 2 lint tests

# Many tests wait for processes that they start, so three at a time fill two cores. What was compiled is kept for these processes.
.PHONY: tests
tests: install
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist worksteal --durations=15

# Tests over very many names and designs take a seeded sample by default; here they take all.
test-all: export LEANFORMER_TEST = all
test-all: test

# Seeded attempts to get a wrong answer, a traceback or a hang; docs/project/robustness.md has the table.
SEED ?= 0
SCALE ?= 1
fuzz: install
	cd tests && ../$(BIN)/python -m fuzz --seed $(SEED) --scale $(SCALE)

bench: install
	$(BIN)/python -m benchmarks

constraints: install
	{ head -n 1 constraints.txt; $(BIN)/pip freeze --exclude-editable | sed 's/+cpu//'; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
