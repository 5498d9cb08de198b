# Everything a newcomer needs is `make demo` and `make test`; both set up their own virtual environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS   ?= 2

.PHONY: demo test test-all lint types bench corpus tirx-kernels generated browser multitool clean help

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
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not generator and not browser and not multitool and not packaging" tests

test-all: $(VENV)/.stamp generated browser multitool  ## the rest: generated TVM kernels, Chromium, the SARIF validator, the wheel and the action
	WARPLINT_GENERATED=build/generated WARPLINT_MULTITOOL=$(MULTITOOL) WARPLINT_PACKAGING=1 WARPLINT_KILLS=60 \
	  $(BIN)/python -m pytest -q -m "generator or browser or multitool or packaging or slow" tests

lint: $(VENV)/.stamp  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp  ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.stamp  ## ratios to the bare parse and to bare Python (CORPUS=folder of .cu files)
	$(BIN)/python tests/bench/bench.py $(if $(CORPUS),--corpus $(CORPUS),)

# --- generators: TVM 0.26, TVM 0.27 and TileLang exclude each other: a virtual environment each --------------------------
build/venv-tvm%/.stamp: fixtures/generators/requirements-tvm%.txt
	$(PYTHON) -m venv build/venv-tvm$*
	build/venv-tvm$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/generated/tvm%/index.tsv: build/venv-tvm%/.stamp $(wildcard fixtures/generators/*.py)
	@mkdir -p build/generated/tvm$*
	build/venv-tvm$*/bin/python fixtures/generators/tirx_generate.py --all build/generated/tvm$*

build/venv-tilelang/.stamp: fixtures/generators/requirements-tilelang.txt
	$(PYTHON) -m venv build/venv-tilelang
	build/venv-tilelang/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/generated/tilelang/index.tsv: build/venv-tilelang/.stamp $(wildcard fixtures/generators/*.py)
	@mkdir -p build/generated/tilelang
	build/venv-tilelang/bin/python fixtures/generators/tilelang_generate.py --all build/generated/tilelang > build/generated/tilelang/log.txt

.SECONDARY: build/venv-tvm026/.stamp build/venv-tvm027/.stamp build/venv-tilelang/.stamp
generated: build/generated/tvm026/index.tsv build/generated/tvm027/index.tsv build/generated/tilelang/index.tsv  ## our own kernels, one bug each: TIRx from two TVM versions, TileLang for four targets

# --- browser: Chromium from the system's packages, driven by playwright's Python client ------------------------------
build/.browser: $(VENV)/.stamp
	$(PIP) -e '.[browser]'
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	@mkdir -p build && touch $@
browser: build/.browser

# --- Microsoft's SARIF validator with GitHub's rules: an npm package that holds a .NET program; runs offline ---------
MULTITOOL := build/multitool/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool
$(MULTITOOL):
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/multitool @microsoft/sarif-multitool@5.7.0
	chmod u+x $@
multitool: $(MULTITOOL)  ## the SARIF validator that `make test-all` uses

corpus: $(VENV)/.stamp  ## lint the CUDA and HIP sources of public packages, write docs/COVERAGE.md (an hour; not in CI)
	$(PIP) unearth
	$(BIN)/python -m tests.corpus.fetch build/corpus
	$(BIN)/python -m tests.corpus.measure --corpus build/corpus
	$(BIN)/python -m tests.corpus.coverage build/corpus

tirx-kernels:  ## the kernels of the PyPI package tirx-kernels, for measuring (CORPUS_TOOL=generator script)
	@test -n "$(CORPUS_TOOL)" || (echo "usage: make tirx-kernels CORPUS_TOOL=path/to/generate_tirx.py"; exit 2)
	$(PYTHON) $(CORPUS_TOOL) build/corpus/tk27 --venv build/venv-tirx-kernels --jobs $(JOBS)

clean:  ## remove everything that was built
	rm -rf build $(VENV) .pytest_cache .ruff_cache
