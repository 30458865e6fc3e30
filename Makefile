# One command a job. Each sets up its own virtual environment first, if that is not there or out of date.
#
#   make test PYTHON=python3.13 VENV=.venv-3.13    another interpreter, in an environment of its own
#   make test ARGS="-k mailbox -x"                 arguments for pytest (or for the benchmarks)

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= auto
ARGS ?=

python := $(VENV)/bin/python
version := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2] + sys.abiflags)' 2>/dev/null)
pip_install := $(python) -m pip install --quiet --disable-pip-version-check

# The stamps are written last: an environment that was interrupted halfway has none, and is made again.
# The version in their names does the same for an environment of another Python.
ready := $(VENV)/.ready-$(version)
ready_bench := $(VENV)/.ready-bench-$(version)
ready_peers := $(VENV)/.ready-peers-$(version)
ready_serve := $(VENV)/.ready-serve-$(version)

# What ships is checked through greenroom/, whose links lead to the other folders.
typed := $(wildcard greenroom tests benchmarks examples)

# Tests are safe in parallel: they share no file, port or environment variable, and each worker is a
# process of its own. --dist loadgroup keeps tests that share a costly fixture in one worker.
pytest := $(python) -m pytest -n $(WORKERS) --dist loadgroup

# A thread switch every microsecond instead of every 5 ms: races that hide otherwise come out.
small_switch_interval := GREENROOM_SWITCH_INTERVAL=1e-6

# What such a switch interval changes nothing for: no threads of ours, or other processes.
not_about_threads = $(addprefix --ignore=,$(tests_of_pure) $(addprefix tests/,actors/simulation bench browser \
  cli crash room/test_coherence.py simulation store strikes supervisor/test_meter.py test_documentation.py \
  test_house.py test_packaging.py test_spec.py) \
  $(filter-out $(about_threads),$(wildcard tests/gateway/* tests/integrations/* tests/stress/test_*.py)))
about_threads := $(addprefix tests/,gateway/test_admission.py gateway/test_answers.py \
  gateway/test_performance.py integrations/test_hermes_webui.py integrations/test_hermes_webui_drain.py \
  integrations/test_hermes_webui_threads.py stress/test_room_target.py stress/test_run.py \
  stress/test_watched.py)

heart := $(addprefix tests/,actors room simulation store supervisor)

# Only root on Debian may install. apt-get needs the programs of administrators, which are not on every PATH.
may_install := test "$$(id -u)" = 0 && command -v apt-get && apt-get update -qq
apt_install := PATH="$$PATH:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

# Debian's package would start a server. The setting that says so is put back afterwards.
cluster_settings := /etc/postgresql-common/createcluster.conf
without_cluster := sed -i.before 's/^\#*create_main_cluster.*/create_main_cluster = false/' $(cluster_settings)
with_cluster := mv $(cluster_settings).before $(cluster_settings)

# The modules that decide and do nothing. Their own tests alone take every branch of them.
comma := ,
space := $(subst ,, )
pure := $(subst $(space),$(comma),$(addprefix */,actors/session/machine/*.py \
  actors/ledger/accounts.py actors/ledger/coherence.py \
  actors/session/generations.py actors/session/policy.py supervisor/drain.py supervisor/eviction.py))
tests_of_pure := $(addprefix tests/,actors/test_accounts.py actors/test_coherence.py actors/test_generations.py \
  actors/test_generations_ledger.py actors/test_machine.py actors/test_machine_model.py \
  actors/test_machine_rules.py actors/test_machine_store.py actors/test_machine_store_model.py \
  actors/test_machine_tables.py actors/test_policy.py supervisor/test_drain_progress.py \
  supervisor/test_eviction.py)

# What integrations are for: a folder of tests each, with what it needs, in an environment of its own.
integrations := $(notdir $(patsubst %/requirements.txt,%,$(wildcard tests/integrations/*/requirements.txt)))

.DEFAULT_GOAL := help
.PHONY: help test quick pythons test-integrations $(addprefix test-,$(integrations)) browser postgres behaviours coverage check format bench bench-peers bench-scale bench-heart profile serve histories soak crash strikes stress leaks conformance clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

test: $(ready) browser postgres ## run all tests, those about threads first with a tiny thread switch interval
	$(small_switch_interval) $(pytest) $(not_about_threads) $(ARGS)
	$(pytest) $(ARGS)

quick: $(ready) ## run the tests of the heart but for PostgreSQL, other processes and long ranges, in half a minute
	$(pytest) -m "not long and not postgres" $(heart) $(ARGS)

pythons: ## run the tests of the heart on every Python that is found: 3.11 to 3.15, with a GIL and without
	@$(PYTHON) -m tests.pythons -n $(WORKERS) -m "not postgres" $(heart) tests/strikes $(ARGS)

test-integrations: $(addprefix test-,$(integrations)) ## run the tests with the frameworks that integrations are for

# In the folder of the tests, and with that as their root: the checkout is not on sys.path, where Hermes finds
# a package "gateway", and no test module is called "anthropic.test_…".
$(addprefix test-,$(integrations)): test-%: $(VENV)-%/.ready-$(version)
	cd tests/integrations/$* && GREENROOM_INTEGRATION=$* $(abspath $(VENV)-$*/bin/python) -P -m pytest -q -c ../frameworks.ini --rootdir . . $(ARGS)

$(VENV)-%/.ready-$(version): tests/integrations/%/requirements.txt setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'
	@test -e $@ || { echo "Setting up $(VENV)-$* with Python $(version)"; $(PYTHON) -m venv --clear $(VENV)-$*; }
	@rm -f $@
	$(VENV)-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $< --editable '.[store]'
	@touch $@

browser: ## install Chromium for the tests of the page, where that may be done
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  test -n "$$GREENROOM_CHROMIUM" || { $(may_install) && $(apt_install) chromium; }; } \
	  >/dev/null 2>&1 || echo "The tests of the page do not run: there is no Chromium here, and none could be" \
	  "installed. (As root on Debian it is. Another one: GREENROOM_CHROMIUM=path)"

postgres: $(ready) ## install PostgreSQL for the tests of the store, where there is none and that may be done
	@{ $(python) -m tests.postgres || { $(may_install) && $(apt_install) postgresql-common && \
	  $(without_cluster) && { $(apt_install) postgresql; $(with_cluster); $(python) -m tests.postgres; }; }; } \
	  >/dev/null 2>&1 || echo "The tests with PostgreSQL do not run: there is no server here, and none could be" \
	  "installed. (As root on Debian it is. A running one: GREENROOM_POSTGRES=url)"

behaviours: $(ready) ## run the tests of the design's numbered behaviours, and print which has which
	$(pytest) -p tests.behaviours $(ARGS)

coverage: $(ready) ## show that the tests of the pure modules take every branch of these
	$(python) -m coverage run --branch --include=$(pure) --data-file=build/.coverage \
	  -m pytest -q $(tests_of_pure) $(ARGS)
	$(python) -m coverage report --data-file=build/.coverage --show-missing --fail-under=100

check: $(ready) ## format, lint and types (mypy, pyright), of what ships and of the tests
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy $(typed)
	$(python) -m pyright --pythonpath $(python) --warnings

format: $(ready) ## format, and repair what lint can repair
	$(python) -m ruff format .
	$(python) -m ruff check --fix .

bench: $(ready_bench) ## run the benchmarks beside their peers
	$(python) -m benchmarks $(ARGS)

bench-peers: $(ready_peers) ## run one workload on greenroom and on what else people use
	$(python) -m benchmarks --only peers $(ARGS)

bench-scale: $(ready_bench) ## measure how cost grows from a hundred to a million sessions
	$(python) -m benchmarks.scale $(ARGS)

bench-heart: $(ready_bench) ## hold the cost of turns, sessions and code against their bars
	$(python) -m benchmarks.heart $(ARGS)

profile: $(ready_bench) ## see where the time goes, as flame graphs and beside the floor
	$(python) -m benchmarks.profiles $(ARGS)

serve: $(ready_serve) ## run the gateway, on SQLite and with an offline agent
	$(python) -m greenroom serve $(ARGS)

histories: $(ready) ## simulate a hundred thousand histories of a room, and of rooms that are killed
	$(python) -m tests.simulation.histories $(ARGS)
	$(python) -m tests.simulation.histories --of bursts --seeds 20000 $(ARGS)
	$(python) -m tests.simulation.histories --of crashes --seeds 20000 $(ARGS)

soak: $(ready_bench) ## an hour of mixed load with faults, and what grew
	$(python) -m benchmarks.soak $(ARGS)

crash: $(ready) ## kill a gateway 200 times, and let eight share a database for a minute
	GREENROOM_CRASHES=200 GREENROOM_CRASH_SECONDS=60 $(python) -m pytest -q -rP --timeout=1800 tests/crash $(ARGS)

strikes: $(ready) ## raise at each point of a room where CPython delivers signals, and send it some thousand
	GREENROOM_STRIKES=all $(pytest) tests/strikes $(ARGS)

stress: $(ready) ## a minute of 64 threads on 10,000 sessions
	GREENROOM_STRESS_SECONDS=60 $(python) -m pytest -q tests/room/test_stress.py $(ARGS)

leaks: $(ready) ## let a million sessions come and go, and look at the memory
	$(python) -m tests.room.test_stress

conformance: $(ready) ## run pykka's own test suite on our classes
	$(python) tests/conformance/run.py $(ARGS)

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .venv-heart-* build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ready_serve): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "greenroom needs Python 3.11 or later (tested: 3.11 to 3.15). '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -e $@ || { echo "Setting up $(VENV) with Python $(version): half a minute, or so"; $(PYTHON) -m venv --clear $(VENV); }
	@rm -f $@ $(ready) $(ready_bench) $(ready_peers)
	$(pip_install) --editable '.[gateway,agents]'
	@touch $@

$(ready): $(ready_serve)
	$(pip_install) --editable '.[dev]'
	@touch $@

$(ready_bench): $(ready)
	$(pip_install) --editable '.[bench]'
	@touch $@

$(ready_peers): $(ready_bench)
	$(pip_install) --editable '.[peers]'
	@touch $@
