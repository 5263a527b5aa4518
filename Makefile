# make demo       the main job: four ways to train one job compared, with a report
# make demo-lab   real processes in an emulated continuum, beside PyTorch DDP (as root)
# make test       the test suite
# make report     Deep-Edge's table and figures from the measurements in benchmarks/deep_edge: runs/deep-edge.html
# make soak       its properties on 10,000 random cases each, and long tests: hours
# Each sets up everything it needs in .venv by itself.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo demo-lab test report soak check bench docs format clean

demo-lab: $(READY)
	$(BIN)/python benchmarks/lab.py --demo

demo: $(READY)
	$(BIN)/littoral compare examples/edge-cluster/job.yaml --strategies allreduce,parameter_server \
	    --planners fair,proportional --seeds 5 --out runs/demo --report runs/demo/report.html

# Hundreds of the tests' processes import the package: it is compiled once, whatever the environment says.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist worksteal

report: $(READY)
	$(BIN)/littoral profile report benchmarks/deep_edge/profile --jobs 2 --out runs/deep-edge.html \
	    --kinds half-shared,quarter-shared,quarter-shared,quarter-shared --batch 8 --front examples/fog-and-cloud/job.yaml

soak: $(READY)
	LITTORAL_SOAK=1 $(BIN)/pytest -n 2 --dist worksteal tests/strategies tests/planning tests/learning tests/manager

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/solver_scale.py
	$(BIN)/python benchmarks/optimality.py

docs: $(READY)
	$(BIN)/python docs/make.py

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The lab's router is compiled where there is a C compiler, and slower Python elsewhere; root gets the compiler.
# The manager's page is tested in chromium. Stressors are stress-ng's, and for processor and memory our own elsewhere; root gets stress-ng, too.
$(READY): pyproject.toml constraints.txt
	@if [ "$$(id -u)" = 0 ] && ! command -v gcc >/dev/null && command -v apt-get >/dev/null; then \
	    apt-get -qq update && apt-get -qq install -y --no-install-recommends gcc libc6-dev || true; fi
	@if [ "$$(id -u)" = 0 ] && ! command -v stress-ng >/dev/null && command -v apt-get >/dev/null; then \
	    apt-get -qq update && apt-get -qq install -y --no-install-recommends stress-ng || true; fi
	@if [ "$$(id -u)" = 0 ] && ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then \
	    apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium || true; fi
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,report,apps,profile,ray,serve,dev]'
	touch $(READY)

clean:
	rm -rf .venv build runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
