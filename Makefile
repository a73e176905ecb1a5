# Two commands: `make run` (the main job; ARGS adds flags) and `make test` (lint, types, tests; `make test-all`
# adds the long ones). Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: setup run test lint types docs figures unit test-all test-federation test-min test-new release-check extras bench bench-federation \
        format audit pages wheel containers clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

run: $(STAMP)
	$(BIN)/fastfedpg compare --algorithms fast_fedpg fedavg_pg scaffold_pg --problem compromise-grid --oracle gpomdp \
	    --baseline leave-one-out --H 20 --eta 2 --B 32 --K 50 --rounds 100 --seeds 8 --tune --out runs/compromise-grid \
	    --overwrite $(ARGS)

test: lint docs
	$(MAKE) -j2 types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# Everything, part by part, and how long each took: about two and a half hours, most of it properties that are looked for, and real processes that are killed, cut
# off and kept waiting. PARTS="kills docs" runs those; network namespaces need root.
test-all: lint types
	$(BIN)/python tests/parts.py $(PARTS)

test-federation:
	$(MAKE) test-all PARTS=federation

# Environment steps per second beside NumPy and C, on an otherwise idle machine.
bench: $(STAMP)
	$(BIN)/python benchmarks/speed.py $(ARGS)

# Seconds for one phase beside the smallest Flower app, on an otherwise idle machine.
bench-federation: $(STAMP)
	$(BIN)/python benchmarks/federation.py $(ARGS)

# What is installed: wheel and sdist alone in an empty environment, with the main job from there; each extra alone
# (NAMES="plot gym" tries those); a part of the tests with the oldest versions that pyproject.toml allows, and with the
# newest there are (PYTHONS="python3.12 python3.13" tries those). All fetch packages.
release-check: $(STAMP)
	$(BIN)/python tests/installs.py release

extras: $(STAMP)
	$(BIN)/python tests/installs.py extras $(NAMES)

test-min: $(STAMP)
	$(BIN)/python tests/installs.py versions oldest $(PYTHONS)

test-new: $(STAMP)
	$(BIN)/python tests/installs.py versions newest $(PYTHONS)

# The wheel, alone in dist/.
wheel: $(STAMP)
	rm -f dist/fastfedpg-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# A federation of three sites in containers (docs/operating.md).
containers: wheel
	docker compose -p fastfedpg -f containers/compose.yaml up --build

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Known vulnerabilities of the pinned versions; exit code 2 where their data can't be had.
audit: $(STAMP)
	$(BIN)/python tests/audit.py

# The pages as a site in site/, which opens without a network; a link that leads nowhere fails. Not with --quiet, under
# which mkdocs counts no warning and --strict lets all of them pass.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every picture of README and the pages again, by the commands in docs/figures.toml.
figures: $(STAMP)
	$(BIN)/python docs/outputs.py --figures

# Every number in the pages, and the pictures, again.
pages: $(STAMP)
	$(BIN)/python docs/outputs.py

clean:
	rm -rf $(VENV) runs site .pytest_cache .mypy_cache .ruff_cache
