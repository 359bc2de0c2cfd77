# The everyday commands. `make check` is what CI runs; the others are parts of it, or make something to look at.
.PHONY: help install check test test-extended test-lowest lint format demo bench docs picture changelog

BIN := .venv/bin

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(BIN)/etc  ## the environment in .venv, with all that tests and linters need

$(BIN)/etc: pyproject.toml
	python3 -m venv .venv
	$(BIN)/pip install --quiet --editable ".[dev]"
	@touch $@

check:  ## everything that CI checks (installs Debian packages where they are missing)
	.ci/run

test: install  ## all tests; `make test ARGS="tests/unit -n 0"` for some
	$(BIN)/pytest $(ARGS)

test-extended: install  ## what runs every night: variants, and what takes long
	$(BIN)/pytest -m extended

test-lowest:  ## all tests with the lowest versions that pyproject.toml declares, in an environment of their own
	@mkdir -p build && python3 -m dev.lowest > build/lowest.txt
	python3 -m venv build/lowest
	build/lowest/bin/pip install --quiet uv  # pip itself looks for fitting versions for more than 20 minutes
	build/lowest/bin/uv pip install --quiet --python build/lowest/bin/python --constraint build/lowest.txt --editable ".[dev]"
	build/lowest/bin/pytest $(ARGS)

lint: install  ## linters, types, import contracts and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/proselint check README.md CONTRIBUTING.md SECURITY.md docs benchmarks/README.md

format: install  ## put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: install  ## a real table: written, planned, compacted, verified
	$(BIN)/etc demo

bench: install  ## all benchmarks but the large table, each figure a ratio of one run; nothing else should run meanwhile
	$(BIN)/python -m benchmarks $(ARGS)

docs: install  ## the documentation site in build/docs; any warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

picture: install  ## the chart in README, and what README prints, from one new run of the demo
	@mkdir -p target
	$(BIN)/etc demo > target/demo.txt
	$(BIN)/python -m dev.picture
	$(BIN)/python -m dev.printed target/demo.txt

changelog: install  ## what the next release will say
	$(BIN)/towncrier build --draft --version unreleased
