# Everything a newcomer needs is `make demo` and `make test`; both set up their own virtual environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS   ?= 2

.PHONY: demo test test-all lint types bench corpus generated browser clean help

help:  ## what the targets do
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.stamp  ## lint the bundled kernels, write build/demo/report.html and report.sarif
	@mkdir -p build/demo
	$(BIN)/warplint lint fixtures/artifacts --exit-zero --output html=build/demo/report.html --output sarif=build/demo/report.sarif
	@echo; echo "Open build/demo/report.html in a browser; build/demo/report.sarif is for code scanning."

test: $(VENV)/.stamp  ## the test suite (no GPU, no CUDA toolkit, no generator, no browser)
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not generator and not browser" tests

test-all: $(VENV)/.stamp generated browser  ## the rest: generated TVM kernels and the HTML report in Chromium
	WARPLINT_GENERATED=build/generated $(BIN)/python -m pytest -q -m "generator or browser" tests

lint: $(VENV)/.stamp  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp  ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.stamp  ## ratios to the bare parse and to bare Python (CORPUS=folder of .cu files)
	$(BIN)/python tests/bench/bench.py $(if $(CORPUS),--corpus $(CORPUS),)

# --- generators: TVM 0.26 and 0.27 exclude each other, so each has a virtual environment of its own ------------------
build/venv-tvm%/.stamp: fixtures/generators/requirements-tvm%.txt
	$(PYTHON) -m venv build/venv-tvm$*
	build/venv-tvm$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/generated/tvm%/index.tsv: build/venv-tvm%/.stamp $(wildcard fixtures/generators/*.py)
	@mkdir -p build/generated/tvm$*
	build/venv-tvm$*/bin/python fixtures/generators/tirx_generate.py --all build/generated/tvm$*

.SECONDARY: build/venv-tvm026/.stamp build/venv-tvm027/.stamp
generated: build/generated/tvm026/index.tsv build/generated/tvm027/index.tsv  ## our own TIRx kernels, one bug each, from both TVM versions

# --- browser: Chromium from the system's packages, driven by playwright's Python client ------------------------------
build/.browser: $(VENV)/.stamp
	$(PIP) '.[browser]'
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	@mkdir -p build && touch $@
browser: build/.browser

corpus:  ## the kernels of the PyPI package tirx-kernels, for measuring (CORPUS_TOOL=generator script)
	@test -n "$(CORPUS_TOOL)" || (echo "usage: make corpus CORPUS_TOOL=path/to/generate_tirx.py"; exit 2)
	$(PYTHON) $(CORPUS_TOOL) build/corpus/tk27 --venv build/venv-tirx-kernels --jobs $(JOBS)

clean:  ## remove everything that was built
	rm -rf build $(VENV) .pytest_cache .ruff_cache
