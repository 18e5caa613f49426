# make help says what there is. Paths are relative, so that a checkout may have spaces in its path,
# and programs of .venv are run as modules, since a script's first line cannot hold a space.
SHELL := /bin/sh
VENV_PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help install paconvert check test test-slow faults faults-everywhere environments lint clean distclean

help:
	@echo "make install    make .venv with the pinned CPU packages, where that is still to be done"
	@echo "make paconvert  make .paconvert with PaConvert, which translates torch files to Paddle"
	@echo "make check      the five steps for every built-in model, and one table of verdicts"
	@echo "make test       the tests, without those that are marked slow"
	@echo "make test-slow  the slow ones: whole trainings, kills, exports, every command of the pages"
	@echo "make faults     plants every fault of the catalogue, and runs the correct hard pairs"
	@echo "make faults-everywhere  a part of them on other paths of the linear algebra: 40 minutes"
	@echo "make environments  the checks with other versions: Python 3.10 to 3.13, torch 2.4, Paddle 2.6"
	@echo "make lint       ruff, the twins line by line, imports and pages; tests that took too long"
	@echo "make clean      remove logs and caches"
	@echo "make distclean  remove .venv as well"
	@echo "Another Python: make install PYTHON=/path/to/python3.12"
	@echo "Another index for torch's CPU build: make install TORCH_INDEX=https://.../whl/cpu"

# Nothing is to be done where the last installation was for pyproject.toml as it is, and its Python
# finds this checkout: a copy has the environment of the folder that it was copied from.
HERE := import os, sys, twincheck; sys.exit(not os.path.samefile(twincheck.HERE, "twincheck"))
FITS := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
install:
	@if cmp -s pyproject.toml .venv/pyproject.toml && [ -x .venv/bin/twincheck ] && \
		$(VENV_PYTHON) -I -c '$(HERE)' 2>/dev/null; then exit 0; fi; \
	if [ -n "$(PYTHON)" ]; then set -- "$(PYTHON)"; else set -- python3.11 python3.12 python3.13 python3; fi; \
	for python; do \
		if "$$python" -I -c '$(FITS)' >/dev/null 2>&1; then exec "$$python" -I tools/install.py; fi; \
	done; \
	echo "no Python 3.11 to 3.13 with venv and ensurepip among $$*: install one (on Debian and Ubuntu" \
		"python3-venv too), or name it: make install PYTHON=/path/to/python3.12" >&2; \
	exit 2

# Its packages, such as an old black, do not belong into .venv. 32 MB, some seconds.
paconvert: install
	@if ! .paconvert/bin/python -I -m pip freeze 2>/dev/null | grep -qx paconvert==3.3.1; then \
		rm -rf .paconvert && $(VENV_PYTHON) -m venv .paconvert && \
		.paconvert/bin/python -I -m pip install -q --disable-pip-version-check -r tools/paconvert.txt; \
	fi

check: install
	@$(VENV_PYTHON) -m twincheck check

PYTEST := $(VENV_PYTHON) -m pytest -n auto --maxprocesses 8 --dist loadfile
test: install
	@$(PYTEST) -m 'not slow and not lint'

test-slow: install
	@$(PYTEST) -m slow --durations=40

faults: install
	@$(VENV_PYTHON) -m faults.run

# What tells a library which instructions or how many threads to use.
PATHS := OMP_NUM_THREADS=2 OMP_NUM_THREADS=4 MKL_DEBUG_CPU_TYPE=5 MKL_DEBUG_CPU_TYPE= MKL_ENABLE_INSTRUCTIONS=AVX2 \
	MKL_ENABLE_INSTRUCTIONS=SSE4_2 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41
faults-everywhere: install
	@failed=0; for path in $(PATHS); do \
		echo "$$path"; env "$$path" $(VENV_PYTHON) -m faults.run --few || failed=1; \
	done; exit $$failed

# Installs into .environments, once: 8 GB, or 25 where torch brings CUDA; half an hour.
environments: install
	@WORKBENCH_ENVIRONMENTS=1 $(VENV_PYTHON) -m pytest -q tests/test_environments.py \
		extras/publish/tests/test_export.py::test_in_an_environment_that_its_own_requirements_make

lint: install
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m tools.twins
	@$(VENV_PYTHON) -m tools.rooms
	@$(VENV_PYTHON) -m tools.sentences
	@$(PYTEST) -q -m lint

clean:
	@rm -rf log step*/log .pytest_cache .ruff_cache
	@find . -name .venv -prune -o -name .environments -prune -o -name .paconvert -prune -o -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	@rm -rf .venv .venv.lock .environments .paconvert
