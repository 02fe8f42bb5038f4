# Every target makes its own environment in .venv from the locked hashes; outside this directory
# only the caches of pip and npm are written.  Commands are quiet until something is wrong.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
RIG := tests/rig
MAKEFLAGS += --no-print-directory

# The environments are named after what they were made from: a changed lock or another
# Python makes a new one, a touched file does not.
HASH = $(shell { $(PYTHON) -V; cat $(1); } 2>&1 | git hash-object --stdin)
RUN_STAMP := $(VENV)/run-$(call HASH,requirements.txt pyproject.toml $(wildcard session/agents/*/native/*))
DEV_STAMP := $(VENV)/dev-$(call HASH,requirements.txt requirements-dev.txt pyproject.toml $(wildcard session/agents/*/native/*))
RIG_STAMP := $(RIG)/node_modules/rig-$(call HASH,$(wildcard $(RIG)/package-lock.json))

PIP := "$(BIN)/python" -m pip --disable-pip-version-check --no-input -qq
LOCKED := --require-hashes --only-binary :all:

.PHONY: help demo test fuzz needs lint format bench lock clean

help:
	@echo "make demo    fork, rewind and undo sample sessions in a temporary store (under a minute)"
	@echo "make test    every test, with the real agent program against a scripted model"
	@echo "make fuzz    coverage-guided fuzzing of all readers (10 minutes; ARGS='reader --seconds 60')"
	@echo "make lint    formatting, lint and types"
	@echo "make bench   ratios against peers and physical floors, measured in one run"
	@echo "make format  let ruff rewrite what make lint would object to"
	@echo "make lock    resolve the pinned dependencies again (needs uv)"
	@echo "make clean   remove what the targets above have made"

demo: $(RUN_STAMP)
	@"$(BIN)/python" demo/demo.py

test: needs $(DEV_STAMP) $(RIG_STAMP)
	@PATH="$(BIN):$$PATH" "$(BIN)/python" -m pytest -q $(ARGS)

fuzz: $(DEV_STAMP)
	@"$(BIN)/python" -m tests.fuzz $(ARGS)

needs:
	@for tool in git npm tmux; do command -v $$tool >/dev/null || { \
	  echo "make test needs $$tool; install it first, for example: apt-get install $$tool" >&2; \
	  exit 1; }; done

lint: $(DEV_STAMP)
	@"$(BIN)/ruff" format --check --quiet --output-format concise . || { echo "ruff format: 'make format' mends this" >&2; exit 1; }
	@"$(BIN)/ruff" check --quiet .
	@"$(BIN)/mypy" --strict --no-error-summary server session
	@echo "lint: ruff format, ruff check and mypy --strict found nothing"

format: $(DEV_STAMP)
	@"$(BIN)/ruff" check --fix --quiet . || true
	@"$(BIN)/ruff" format --quiet .

bench: $(DEV_STAMP)
	@PATH="$(BIN):$$PATH" "$(BIN)/python" -m bench $(ARGS)

$(RUN_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turntree needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	@echo "Making $(VENV) from requirements.txt ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install $(LOCKED) -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): $(RUN_STAMP)
	@echo "Adding requirements-dev.txt to $(VENV) ..."
	@$(PIP) install $(LOCKED) -r requirements-dev.txt
	@touch $@

$(RIG_STAMP):
	@echo "Installing the agent's program into $(RIG)/node_modules ..."
	@cd $(RIG) && npm ci --silent --no-audit --no-fund
	@touch $@

UV = uv pip compile pyproject.toml --quiet --no-config --universal --python-version 3.11 \
  --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock"

lock:
	@$(UV) --group build --upgrade --output-file requirements.txt
	@$(UV) --group dev --upgrade --constraints requirements.txt --output-file requirements-dev.txt

clean:
	@rm -rf $(VENV) $(RIG)/node_modules build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@rm -f session/agents/*/*.so
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
