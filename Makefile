# The interpreter that .venv is made from; used only when .venv is made or made anew.
PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
# Installs in a tenth of pip's time, where there is one. The tests' environments need its rules for
# versions, so .venv has one in any case.
UV := $(shell command -v uv 2>/dev/null)
# Exists only after a complete install, so that an interrupted one starts again.
STAMP := $(VENV)/.complete
# Environments for `make test-all` only, which come and go with .venv.
LOWEST := $(VENV)/lowest
NEWEST := $(VENV)/newest

.DEFAULT_GOAL := help
.PHONY: help book test test-all coverage notebooks lab bench clean

help: ## Show this list
	@echo "Usage: make TARGET [PYTHON=python3.12]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: $(STAMP) ## Execute all notebooks and make a book of them, build/book/index.html
	$(BIN)/python notebooks/build.py

test: $(STAMP) ## Check a change in minutes: style, types, unit tests, numbers of three chapters
	$(BIN)/python tests/run.py

test-all: test $(LOWEST)/.complete $(NEWEST)/.complete ## The same, then slow tests, other versions, all chapters and the book
	$(BIN)/python tests/run.py --rest

coverage: $(STAMP) ## Run the unit tests, and list the lines that they don't reach
	$(BIN)/python tests/run.py --coverage

notebooks: $(STAMP) ## Execute the notebooks in place, ready to be committed
	$(BIN)/python notebooks/build.py --in-place

lab: $(STAMP) ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=notebooks

bench: $(STAMP) ## Measure against named rivals: table and figure in benchmarks/results
	$(BIN)/python benchmarks/summary.py

clean: ## Remove everything that was made: .venv, build, caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +

# From scratch, not on top of the old one: a dependency that was dropped must be gone.
# The stamp goes first and comes back last. Modules are compiled when first imported:
# half the time and three quarters of the space.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "akpca needs Python 3.11 or newer, but $(PYTHON) is" \
	    "$$( ($(PYTHON) --version || echo missing) 2>&1 | tail -n 1)." >&2; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) (about a minute) ..."
	@rm -f $@
ifneq ($(UV),)
	@$(UV) venv -q --clear --seed --python $(PYTHON) $(VENV)
	@$(UV) pip install --python $(BIN)/python -e '.[dev,book]'
else
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --no-compile --disable-pip-version-check -e '.[dev,book]'
endif
	@touch $@

# The lowest versions that pyproject.toml allows: the bounds are true only if the tests pass there.
# Of versions older than the Python at hand there are no wheels; the lowest that has one is taken.
$(LOWEST)/.complete: $(STAMP)
	@echo "Setting up $(LOWEST) with the lowest versions of all dependencies ..."
	@rm -rf $(LOWEST)
	@$(BIN)/uv venv -q --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --python $(LOWEST) --resolution lowest-direct \
	  --only-binary :all: -e '.[dev]'
	@touch $@

# The newest Python of this machine; nothing but the stamp if that is the one of .venv.
$(NEWEST)/.complete: $(STAMP)
	@rm -rf $(NEWEST) && mkdir $(NEWEST)
	@python="$$($(BIN)/python tests/newest_python.py)"; test -z "$$python" || { \
	  echo "Setting up $(NEWEST) with $$($$python --version) ..." && \
	  $(BIN)/uv venv -q --clear --python "$$python" $(NEWEST) && \
	  $(BIN)/uv pip install --python $(NEWEST) -e '.[dev]'; }
	@touch $@
