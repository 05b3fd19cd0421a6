# Everything lives in .venv; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fem,geometry,viz,tensorboard,dev]'
	touch $@

demo: setup
	$(BIN)/hardpde solve battery-pack --preset quick --out demo --force

lint: setup
	$(BIN)/ruff check hardpde tests examples benchmarks
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

clean:
	rm -rf .venv demo runs build dist
