# Everything that a person types. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := fast,wire,kafka,otel,spark,top,dev
# what is set where make runs must not have each of hundreds of agents compile its modules anew
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-kafka test unit field backtests groups-side-by-side row truth coverage-core coverage check lint types imports language format mutants fuzz bench faults churn soak random-groups live-recordings collector corpus versions dashboards pictures screens cast walks docs site admission quiet kill-spark lock build sbom chart-package checksums release-check publish images image-agent image-spark digests sign chart-push workflows audit clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, $(PYTHON) is {sys.version.split()[0]}; say: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "installing into $(VENV) (once, about 1 GB with PySpark) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $(READY)

demo: $(READY) ## real consumers rebalance; gauges, samples, Spark and a report, in about two minutes
	$(BIN)/rebalance-agent demo --report

demo-kafka: $(READY) ## the same with a real broker and Java and Streams clients from Maven Central
	$(BIN)/rebalance-agent demo --broker kafka

# they wait more than they work: four keep two cores busy
WORKERS ?= 4
test: $(READY) ## all tests, with real brokers and real Java clients, WORKERS side by side
	@$(BIN)/python -m tests.spark_start
	-@$(BIN)/python -m tests.lab_start
	$(BIN)/pytest -n $(WORKERS) || { [ $$? = 1 ] && [ "$$CI" = true ] && $(BIN)/python -m tests.again; }

# not even read: what they import costs each worker a second
SPARKS = $(shell grep -rl --include=test_*.py '^pytestmark = .*\.spark\b' tests/aggregation/spark)
unit: $(READY) ## what starts no other program, with a tenth of hypothesis's examples: 20 seconds
	HYPOTHESIS_PROFILE=unit $(BIN)/pytest --quiet -n 3 $(SPARKS:%=--ignore=%) \
	  -m 'not (spark or kafka or jvm or process or slow)' tests/metrics tests/aggregation tests/agent

RUNS ?= 10
row: $(READY) ## ten runs of all tests in a row, none with a second try; ends at the first failure (two hours)
	@$(BIN)/python -m tests.spark_start
	-@$(BIN)/python -m tests.lab_start
	@for run in $$(seq $(RUNS)); do echo "run $$run of $(RUNS)"; $(BIN)/pytest --quiet -n $(WORKERS) || exit 1; done

field: $(READY) ## frameworks, live incidents, backtests and side by side, all of them (hours); PYTEST_ARGS: a part
	-@$(BIN)/python -m tests.lab_start
	FIELD=1 $(BIN)/pytest -m field -n 2 $(PYTEST_ARGS)

groups-side-by-side: $(READY) ## groups and Kafka's newest tools on one cluster: contents, time, CPU, exit codes (minutes)
	-@$(BIN)/python -m tests.lab_start
	$(BIN)/python -m tests.system.groups_side_by_side

backtests: $(READY) ## play scenes with and without what a report proposes, into docs/backtests.md (20 minutes)
	-@$(BIN)/python -m tests.lab_start
	$(BIN)/python -m tests.system.backtests

coverage-core: $(READY) ## every branch of metrics/ is taken by its tests
	$(BIN)/pytest --quiet -n 2 tests/metrics \
	  --cov=metrics --cov-report=term-missing:skip-covered --cov-fail-under=100

coverage: coverage-core ## and 95 % of the rest, in all processes that tests start (twenty minutes)
	$(BIN)/pytest --quiet -n $(WORKERS) tests/agent tests/aggregation tests/system tests/faults \
	  --cov=agent --cov=aggregation --cov-report=term-missing:skip-covered --cov-fail-under=95

check: test coverage-core lint types imports language ## what CI runs: make test, the core's coverage, ruff, mypy, import-linter and the language

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

imports: $(READY) ## the layers: agent -> aggregation -> metrics
	$(BIN)/lint-imports --no-cache

language: $(READY) ## plain words: docstrings and names against the limits in pyproject.toml
	$(BIN)/python -m tools.check_language

format: $(READY) ## bring the code into ruff's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

mutants: $(READY) ## break the core on purpose: each mutant must fail a test (long)
	$(BIN)/mutmut run --max-children 2
	$(BIN)/mutmut results

FUZZ_RUNS ?= 10000000
fuzz: $(READY) ## 10 million executions of each target (days of a core; FUZZ_RUNS: fewer)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --runs $(FUZZ_RUNS)

bench: $(READY) ## ratios to peers, each measured in one run, into docs/benchmarks.md (long)
	$(BIN)/python benchmarks/page.py $(BENCHMARKS)

TRUTH ?= ../shared/tools/check_truth.py
truth: $(READY) ## replay recorded rebalances, wire and logs, and compare with their truth (TRUTH: the tool)
	@for source in pcap logs; do \
	  $(BIN)/python $(TRUTH) --cli $(CURDIR)/$(BIN)/rebalance-agent --source $$source --min-exact 1 --max-false 0 \
	    || exit 1; done

faults: $(READY) ## 100 kill -9 a source, 1,000 rotations a method, and the other faults (half an hour)
	FAULT_ROUNDS=100 FAULT_ROTATIONS=1000 FAULT_CHANGES=100 FAULT_HUB_ROUNDS=2000 FAULT_PODS=1000 FAULT_FILES=20000 \
	  $(BIN)/pytest tests/faults

CHURN_IDS ?= 1000000
churn: $(READY) ## a million client ids and 10,000 groups through each source, at default limits (an hour)
	for source in logs broker_logs wire statistics http; do \
	  $(BIN)/python -m tests.churn $$source $(CHURN_IDS) || exit 1; done

SOAK_MINUTES ?= 60
RANDOM_MINUTES ?= 20
SOAK_CONSUMERS ?= 44
SOAK_TRIES ?= 1
soak: $(READY) ## an hour of 50 real clients with random faults; each transition against their DEBUG logs
	-@$(BIN)/python -m tests.lab_start
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --consumers $(SOAK_CONSUMERS) --tries $(SOAK_TRIES)

random-groups: $(READY) ## random groups of clients of many versions; where sources disagree is printed (needs tcpdump)
	-@$(BIN)/python -m tests.lab_start
	$(BIN)/python -m tests.system.random_groups --minutes $(RANDOM_MINUTES)

live-recordings: $(READY) ## recorded logs in real time, agents killed: page, spool and replay show the same incidents (ten minutes)
	$(BIN)/python -m tests.system.live_recordings

collector: $(READY) ## what an OpenTelemetry Collector makes of OTLP; builds one (needs Go 1.25)
	COLLECTOR=1 $(BIN)/pytest tests/system/test_otel_collector.py

corpus: $(READY) ## record the golden logs again from real clients of all versions (long; needs Go)
	$(BIN)/python -m tests.system.corpus $(DIALECTS)
	$(BIN)/pytest --quiet tests/agent/sources/logs/test_dialect_golden.py --update-golden

versions: $(READY) ## name the releases of clients and brokers that are newer than dialects and recordings
	$(BIN)/python -m tools.check_versions

dashboards: $(READY) ## write the dashboards, which are code, as JSON for Grafana and Perses, and the mixin
	$(BIN)/python -m dashboards

pictures: $(READY) screens cast ## draw dashboards into docs/dashboards, from a real Prometheus and the play of demo-kafka (minutes)
	$(BIN)/python -m tests.dashboards.pictures

screens: $(READY) ## pictures of pages into docs/pictures, of recorded incidents (needs Chromium)
	$(BIN)/python -m tests.pictures

cast: $(READY) ## record the demo and top beside it as an SVG that moves, into docs/pictures (two minutes; needs tmux)
	$(BIN)/python -m tests.cast

walks: $(READY) ## install the wheel, run its demo, and go from the first page to a stuck consumer and what to change, pictures into docs/pictures/walks (Chromium, tmux)
	$(BIN)/python -m tests.walks

docs: $(READY) ## write the reference pages, which are made from the code
	$(BIN)/python -m docs

site: $(READY) ## the documentation as a site, in build/site, with a version for each release's tag
	$(BIN)/python -m tools.build_site

admission: $(READY) ## let an API server's own code admit a pod by the chart's policy (minutes; needs Go)
	ADMISSION=1 $(BIN)/pytest tests/deploy/test_admission.py

quiet: $(READY) ## thirty minutes of a quiet fleet, in which no status may change
	QUIET_MINUTES=30 $(BIN)/pytest tests/system/test_quiet_fleet.py

KILLS ?= 20
kill-spark: $(READY) ## KILLS kill -9 of ingest and agents, spool and topic, Parquet, Delta and Iceberg (ten minutes for 20)
	@$(BIN)/python -m tests.spark_start
	FIELD=1 KILLS=$(KILLS) $(BIN)/pytest tests/system/test_kill_spark.py

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
IMAGE_LOCK = $(LOCK) --no-annotate --constraint requirements.lock
lock: $(READY) ## pin all that wheel and extras bring, with hashes: requirements.lock, and the images' parts of it
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[supply]'
	$(LOCK) --extra fast --extra wire --extra kafka --extra otel --extra spark --output-file requirements.lock pyproject.toml
	$(IMAGE_LOCK) --extra fast --extra wire --extra kafka --extra otel --output-file deploy/docker/agent.lock pyproject.toml
	$(IMAGE_LOCK) --extra spark --output-file deploy/docker/spark.lock pyproject.toml
	$(LOCK) --no-annotate --output-file deploy/docker/build.lock deploy/docker/build.in

# what a release publishes; .github/workflows/release.yaml calls these and no others
VERSION = $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
GO_TOOL = $$($(BIN)/python -m tests.deploy.go_tools

build: $(READY) ## sdists and wheels of agent and events in dist, as an index takes them
	@rm -f dist/*.whl dist/*.tar.gz
	@for project in . deploy/kafka_rebalance_events; do \
	  $(BIN)/python -m build --no-isolation --outdir dist $$project >/dev/null || exit 1; done
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

sbom: $(READY) ## what is locked as a CycloneDX bill of materials: dist/sbom.cdx.json
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[supply]'
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/sbom.cdx.json requirements.lock

chart-package: $(READY) ## both Helm charts as packages in dist (builds Helm once; needs Go)
	@mkdir -p dist
	$(GO_TOOL) helm) package --destination dist \
	  deploy/helm/rebalance-agent-sidecar deploy/helm/kafka-rebalance-agent

checksums: ## SHA-256 of what is in dist: dist/SHA256SUMS
	cd dist && sha256sum -- *.whl *.tar.gz *.tgz sbom.cdx.json > .sums && mv .sums SHA256SUMS

release-check: $(READY) ## TAG=v0.2.0 is the version of everything; its notes go to dist/notes.md
	@mkdir -p dist
	$(BIN)/python -m tools.check_release $(TAG) > dist/notes.md

publish: $(READY) ## what build has made goes to PyPI, by a trusted publisher (in the release's workflow)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[supply]'
	$(BIN)/uv publish --trusted-publishing always dist/*.whl dist/*.tar.gz

IMAGE_agent = kafka-rebalance-agent
IMAGE_spark = kafka-rebalance-agent-spark
PUBLISHED = --push --platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max
images: image-agent image-spark ## both images (needs docker); PUSH=1 REGISTRY=HOST/OWNER/: published, with SBOM and provenance
image-agent image-spark: image-%:
	@mkdir -p dist
	docker buildx build --file deploy/docker/$*.Dockerfile --metadata-file dist/image-$*.json \
	  --tag $(REGISTRY)$(IMAGE_$*):$(VERSION) $(if $(PUSH),$(PUBLISHED),--load) .

# name@digest, one a line
DIGESTS = jq --raw-output '(."image.name" | sub(":[^:/]*$$"; "")) + "@" + ."containerimage.digest"'
digests: ## published images by their digests: dist/images.txt (needs jq)
	$(DIGESTS) dist/image-*.json | tee dist/images.txt

sign: digests ## signatures of published images, without a key (needs cosign, and an identity of the workflow)
	cosign sign --yes $$(cat dist/images.txt)

chart-push: ## packages of dist to REGISTRY=HOST/OWNER/, below charts (needs docker's login; builds Helm)
	for chart in dist/*.tgz; do $(GO_TOOL) helm) push "$$chart" oci://$(REGISTRY)charts || exit 1; done

workflows: $(READY) ## actionlint and zizmor: workflows, and what they may do (builds actionlint once; needs Go)
	$(GO_TOOL) actionlint) -color .github/workflows/*.yaml
	$(BIN)/zizmor --offline --quiet .github

audit: $(READY) ## known vulnerabilities of what is locked (asks PyPI)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[supply]'
	$(BIN)/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

clean: ## remove what make has made
	rm -rf $(VENV) mutants build dist .cache .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
