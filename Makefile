# Everything a newcomer types. Each target does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KIT := $(VENV)/.kit

# Containers often set this. The tests start hundreds of servers, and each would compile all of the source anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help packages demo cluster-demo cluster-test catalog-run test suite crash attack check bench docs console screenshots conformance lock format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): requirements/dev.txt pyproject.toml
	@if test -x $(BIN)/python; then python=$(BIN)/python; else python="$(PYTHON)"; fi; \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Fairlead needs Python 3.11 or newer; $$python is $$($$python --version 2>/dev/null || echo not there)."; \
		echo "Name another one, and remove $(VENV) where there is one: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; } >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(KIT): requirements/kit.txt $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/kit.txt
	@touch $@

demo: $(STAMP) ## run every local model, show cost and books; PHOTO=path edits your picture, ONCE=1 stops by itself
	@$(BIN)/fairlead demo --output demo-output $(if $(PHOTO),--photo "$(PHOTO)") $(if $(ONCE),--once)

cluster-demo: $(STAMP) ## load many servers and workers, kill, freeze and roll them, and prove that nothing was lost
	@$(BIN)/python tests/cluster_demo.py

cluster-test: $(STAMP) ## run the end-to-end suite on many servers: two and a worker, PostgreSQL, NATS, S3, a load balancer
	@exec $(BIN)/python -m pytest --cluster -n auto --dist worksteal tests/end_to_end

catalog-run: $(STAMP) ## run every model over every leg against the partner simulator, at once and through the queue
	@$(BIN)/python tests/catalog_run.py

test: check suite ## lint, types, contracts and the whole test suite on both databases, with its coverage

suite: $(KIT) ## the whole test suite; what fails is tried once more, alone
	@COVERAGE=1 exec $(BIN)/python -m pytest -n auto --dist worksteal --second-try

crash: $(STAMP) ## kill servers at every step of a run's life, play 10,000 random histories; SEED=n plays one, FROM=n others
	@CRASH_WALK=long HISTORIES=10000 HISTORIES_FROM=$(or $(FROM),0) $(if $(SEED),HISTORY_SEED=$(SEED)) \
		exec $(BIN)/python -m pytest $(if $(SEED),-s -k one_seed,-n auto --dist worksteal tests/end_to_end/test_crash_walk.py) tests/simulation

attack: $(STAMP) ## try every attack of docs/security.md, and show what another workspace notices; ONLY=name, SHORT=1
	@$(BIN)/python tests/attack.py $(if $(ONLY),--only "$(ONLY)") $(if $(SHORT),--short)

packages: $(KIT) ## install what the tests need

check: $(STAMP) ## lint, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --num-workers auto
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP) ## measure what docs/benchmarks.md claims (needs nginx and wrk)
	@$(BIN)/python bench/synchronous.py
	@$(BIN)/python bench/overload.py
	@$(BIN)/python bench/held.py
	@$(BIN)/python bench/waiting.py
	@$(BIN)/python bench/queued.py
	@$(BIN)/python bench/workflows.py
	@$(BIN)/python bench/sockets.py
	@$(BIN)/python bench/lists.py
	@$(BIN)/python bench/uploads.py
	@$(BIN)/python bench/streams.py
	@$(BIN)/python bench/cluster.py
	@$(BIN)/python bench/shared_database.py

docs: $(STAMP) ## rewrite the schema snapshots, which are served
	@$(BIN)/fairlead catalog snapshots

console: $(STAMP) ## build the console into the package, with types of the API's document (needs Node.js and npm)
	@cd console && npm ci --silent
	@$(BIN)/fairlead openapi > console/openapi.json
	@cd console && npm run --silent types && npm run --silent check && npm run --silent build

screenshots: $(STAMP) ## take a picture of every page of the console, into screenshots/, and renew those of docs/images
	@$(BIN)/python tests/console/screenshots.py

conformance: $(STAMP) ## print which tests prove which rule
	@$(BIN)/python tests/conformance.py

lock: $(STAMP) ## pin every dependency anew, with hashes and without addresses
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --python-version 3.11 pyproject.toml -o requirements/run.txt
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --python-version 3.11 pyproject.toml --group dev -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --python-version 3.11 --group pyproject.toml:kit -c requirements/dev.txt -o requirements/kit.txt

format: $(STAMP) ## repair what can be repaired
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove what the targets made
	@rm -rf $(VENV) console/node_modules console/openapi.json demo-output demo-data screenshots .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
