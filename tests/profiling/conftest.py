"""Stress takes the whole machine's attention: its tests run one at a time, not beside a lab's either."""

from __future__ import annotations

import fcntl
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from synthetic import Machine, app_rows, training_rows

from littoral.profiling.automl import Budget
from littoral.profiling.estimators import Estimators, estimators, fit
from littoral.profiling.profile import Profile
from littoral.worlds.lab import cgroups
from littoral.worlds.lab.places import Place


@pytest.fixture
def machine() -> Iterator[None]:
    """This machine to itself."""
    with (Path(tempfile.gettempdir()) / "littoral-lab-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes wait here
        yield


@pytest.fixture
def place(machine: None) -> Iterator[Place]:
    """Half a core and 512 MB."""
    controllers = cgroups.find_controllers()
    if os.geteuid() != 0 or controllers.cpu is None or controllers.memory is None:
        pytest.skip("making control groups takes root, and the kernel's cpu and memory controllers")
    groups = cgroups.create(controllers, f"probed-{os.getpid()}", "device")
    try:
        cgroups.limit_cpu(groups, 0.5)
        cgroups.limit_memory(groups, 512 << 20)
        yield Place("127.0.0.1", "", groups)
    finally:
        for group in groups:
            cgroups.remove(Path(group).parent)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A profile of one device, one task and one app. The first test process that asks makes it, for all."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with (shared / "fitted.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "fitted"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_fitted()))
        profile: Profile = pickle.loads(kept.read_bytes())
    return profile


def _fitted() -> Profile:
    """With models chosen on a small budget."""
    rows = training_rows(60, machine=Machine(sample_share=0.008))
    return fit(Profile(training=rows, apps=app_rows(60)), budget=Budget(trials=12))


@pytest.fixture(scope="session")
def nano(fitted: Profile) -> Estimators:
    return estimators(fitted, "jetson-nano", "digits")
