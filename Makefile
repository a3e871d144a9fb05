PYTHON ?= python3
TASK ?= examples/conv2d.yaml
# Of pytest: the first times programs, the others do the rest at a lower priority. One more than there are cores, since
# the first often waits.
PROCESSES ?= 3

# Compiled Python is kept, whatever the environment says: else each of a thousand processes compiles it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install evolve test test-all pytest quick check embed collect clean

help:
	@echo "make evolve [TASK=file.yaml]   install, then search for a faster kernel"
	@echo "make test                      install, then every check, and tests: of the slow ones a seventh, another for each commit"
	@echo "make test-all                  install, then run every check and test"
	@echo "make quick                     every check, and the tests that take no compiler, judge or browser"
	@echo "make install                   install into .venv only"

install:
	@$(PYTHON) tools/install.py

evolve: install
	@.venv/bin/kb evolve $(TASK)

# Of the tests that take more than a second a commit runs a seventh, which its name chooses: they are about as long.
PART ?= $(shell git rev-parse HEAD 2>/dev/null | cksum | awk '{print $$1 % 7 + 1}')/7

test: install
	@$(MAKE) --no-print-directory -j2 check embed collect
	@echo "part $(PART) of the slow tests; make test-all runs them all"
	@$(MAKE) --no-print-directory pytest PART=$(PART)

test-all: install
	@$(MAKE) --no-print-directory -j2 check embed collect
	@$(MAKE) --no-print-directory pytest PART=

# A file is one process's: its tests share what takes long to make. `tests/conftest.py` says which begin first.
pytest:
	@.venv/bin/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations=15 -rfER \
	  $(if $(PART),--part $(PART))

# About a minute on two cores, for a look before each commit.
QUICK = tests/test_*.py tests/synth tests/ingest/chunking tests/ingest/readers tests/ingest/scope \
  tests/kb/records tests/kb/retrieval tests/kb/store tests/kb/test_*.py tests/search/costs tests/search/diagnosis \
  tests/search/lessons tests/search/patterns tests/search/policies tests/search/prompting tests/search/runs \
  tests/search/test_*.py

quick: check
	@.venv/bin/python -m pytest -n $(PROCESSES) -m "not slow" $(QUICK)

check: install
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/lint-imports
	@.venv/bin/python -m kb.records.library
	@.venv/bin/mypy

# The shipped documents are embedded once, for the homes of all tests.
embed: install
	@KB_HOME=.kb/test .venv/bin/kb init

# Pytest compiles the tests, which it does not do twice.
collect: install
	@.venv/bin/python -m pytest --collect-only -qqq > .collected || (cat .collected; exit 1)

clean:
	rm -rf .venv .kb
