# Everything runs in .venv, which the first target that needs it makes. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help demo demo-all test test-long test-fast lint bench fuzz soak settle-soak schemas agree archive-soak attack endure deb system-test rig-test mosquitto

PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv/.demo-installed
DEV := .venv/.dev-installed
# More arguments for the command behind a target: make test ARGS="tests/core -x"
ARGS ?=
# Damaged streams of each kind of device that `make fuzz` plays.
COUNT ?= 100000
# Files that `make agree` asks about: of six, five are damaged, one is signed by a stolen key.
FILES ?= 12000
# Most tests wait for real devices and brokers: more processes than processors.
PYTEST = $(BIN)/pytest --numprocesses 3 --dist worksteal --durations 25
FAST = tests/core tests/drivers $(addprefix tests/client/,test_chain_rules.py test_jws.py settlement/test_settle.py)
# Tests start hundreds of processes; without its byte code each would compile the whole source again.
unexport PYTHONDONTWRITEBYTECODE

help: ## list these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 21

demo: $(DEMO) ## see a simulated roulette table at work, from the wheel's bytes to verified results
	@$(BIN)/dollyd demo $(ARGS)

demo-all: $(DEMO) ## see every game at work, one table each, with something that goes wrong at every one
	@$(BIN)/dollyd demo --all $(ARGS)

test: $(DEV) mosquitto ## run the tests, but for the long ones
	@$(PYTEST) -m "not long" $(ARGS)

test-long: $(DEV) mosquitto ## run the long tests: evenings and soaks in real time, long hunts, builds of packages
	@$(PYTEST) --numprocesses 2 -m long $(ARGS)  # evenings in real time, which others would disturb

test-fast: $(DEV) ## run the tests of the core, the drivers and what is pure besides
	@$(PYTEST) --numprocesses 2 -m "not long" $(FAST) $(ARGS)  # nothing of it waits

lint: $(DEV) ## check style, types and layers
	@$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(DEV) mosquitto ## measure latency against a bare serial-to-MQTT bridge
	@$(BIN)/python -m tools.bench $(ARGS)

fuzz: $(DEV) ## play COUNT damaged streams of each kind of device: nothing untrue comes of them
	@$(BIN)/python -m tools.fuzz $(COUNT) $(ARGS)

soak: $(DEV) mosquitto ## 100,000 games while everything around the tables breaks: nothing lost, nothing doubled
	@$(BIN)/python -m tools.soak $(ARGS)

attack: $(DEV) mosquitto ## attack a daemon at the shipped broker in every known way: the table beside loses nothing
	@$(BIN)/python -m tools.attack $(ARGS)

endure: $(DEV) mosquitto ## an evening of ten tables in which everything happens: each plays again by itself in time
	@$(BIN)/python -m tools.endure $(ARGS)

settle-soak: $(DEV) mosquitto ## kill settlement service, daemon and broker over 10,000 rounds: each bet settled once
	@$(BIN)/python -m tools.settlement_soak $(ARGS)

schemas: $(DEV) ## write JSON Schemas, the AsyncAPI document, test vectors and the tables of docs/wire-format.md anew
	@$(BIN)/python -m tools.schemas

agree: $(DEV) ## ask all verifiers and readers about FILES files, damaged or signed by a thief: they must agree
	@$(BIN)/python -m tools.agree $(FILES) $(ARGS)

archive-soak: $(DEV) mosquitto ## archive 200,000 records with two instances that are killed: every record once
	@$(BIN)/python -m tools.archive_soak $(ARGS)

deb: $(DEV) ## build the Debian package, dist/dollyd_VERSION_ARCHITECTURE.deb
	@$(BIN)/python -m tools.build_deb $(ARGS)

system-test: $(DEV) ## put the Debian package into a real systemd and do everything to it; as root
	@$(BIN)/python -m tools.system_test $(ARGS)

rig-test: $(DEV) mosquitto ## the same package in a whole machine under QEMU: USB unplugged, power cut; as root
	@$(BIN)/python -m tools.rig_test $(ARGS)

mosquitto:
	@PATH="$$PATH:/usr/sbin" command -v mosquitto >/dev/null && exit 0
	echo "Mosquitto is missing. Installing it from Debian, for the tests that need a real broker."
	if tools/apt-install mosquitto; then
		echo "Installed. Debian also starts it as a service on localhost:1883, which nothing here uses."
	else
		echo "*** Without Mosquitto the tests that need a real broker are SKIPPED. ***"
	fi

# One virtual environment. A changed pyproject.toml installs again.
.venv/.%-installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
		echo "dollyd needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."
		echo "Install a newer one and name it: make PYTHON=python3.12 ..."
		exit 1
	} >&2
	if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then
		package=$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
		echo "Python's venv module is missing. Installing $$package from Debian."
		tools/apt-install "$$package"
	fi
	echo "Installing into .venv (what '$*' needs) ..."
	$(PYTHON) -m venv .venv
	log=.venv/install.log
	pip="$(BIN)/python -m pip --disable-pip-version-check install"
	# Dependency groups came with pip 25.1.
	{ $$pip --upgrade 'pip>=25.1' && $$pip --editable . --group $*; } >"$$log" 2>&1 || {
		cat "$$log"
		echo "The installation failed; what pip said is above and in $$log."
		exit 1
	} >&2
	touch $@
