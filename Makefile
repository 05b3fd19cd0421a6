# Everything lives in .venv; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint docs clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fem,geometry,viz,tensorboard,dev,docs]'
	touch $@

demo: setup
	$(BIN)/hardpde solve battery-pack --preset quick --out demo --force

lint: setup
	$(BIN)/ruff check hardpde tests examples benchmarks docs
	$(BIN)/mypy

# The site, from the pages in docs/; a link or an anchor that leads nowhere fails. Open site/index.html.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

test: lint docs
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --durations=10 --durations-min=1

clean:
	rm -rf .venv demo runs build dist site
