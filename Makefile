# Everything that `demo` and `test` need is installed into this checkout: .tools (uv), .venv (Airflow, CLI), .venv-kfp (KFP).
PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .tools/bin/uv
# No interpreter is downloaded, and uv's cache stays inside the checkout unless the caller has one.
export UV_PYTHON_DOWNLOADS := never
export UV_CACHE_DIR ?= $(CURDIR)/.cache/uv
export UV_PYTHON ?= $(PYTHON)

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-full cluster lint format bench lock clean

help: ## what can be made here
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.ready ## train a real model on two nodes of this machine, as a step of an Airflow DAG
	@.venv/bin/python .ci/demo.py

test: .venv/.ready .venv-kfp/.ready ## lint, types, layers and the tests, in both environments
	@.venv/bin/python .ci/check.py

test-fast: .venv/.ready .venv-kfp/.ready ## the same without slow tests and without a control plane
	@.venv/bin/python .ci/check.py --fast

test-full: .venv/.ready .venv-kfp/.ready ## the same with the tests marked full: a real Kueue beside the control plane
	@.venv/bin/python .ci/check.py --full

lint: .venv/.ready ## ruff, mypy strict
	@.venv/bin/python .ci/check.py --lint

format: .venv/.ready ## let ruff write the layout
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format --quiet .

cluster: .venv/.ready ## start the tests' control plane for a person, and print its kubeconfig
	@.venv/bin/python -m tests.controlplane

bench: .venv/.ready ## speed and memory beside what one would use instead, as ratios of one run
	@.venv/bin/python -m tests.benchmarks

lock: $(UV) ## resolve the dependencies anew
	@$(UV) lock --upgrade

clean: ## remove what the targets above have made
	rm -rf .tools .venv .venv-kfp .cache .demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@echo "· installing uv $(UV_VERSION) into .tools"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .tools --upgrade "uv==$(UV_VERSION)"

.venv/.ready: pyproject.toml uv.lock | $(UV)
	@echo "· installing trainer-ops with Airflow into .venv (about 640 MB; minutes on a slow line)"
	@$(UV) sync --quiet --frozen --extra airflow --extra initializers --extra mlflow
	@touch $@

.venv-kfp/.ready: pyproject.toml uv.lock | $(UV)
	@echo "· installing trainer-ops with KFP into .venv-kfp (its kubernetes client excludes Airflow's)"
	@UV_PROJECT_ENVIRONMENT=.venv-kfp $(UV) sync --quiet --frozen --extra kfp --extra initializers
	@touch $@
