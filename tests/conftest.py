from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from littoral.worlds.processes.launch import Forge

# One thread per process: sums come out the same every time, and two test processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Properties are tried on 200 cases each, always the same; `make soak` tries 10,000 others.
settings.register_profile(
    "test", max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", parent=settings.get_profile("test"), max_examples=10_000, derandomize=False)
SOAKING = bool(os.environ.get("LITTORAL_SOAK"))
settings.load_profile("soak" if SOAKING else "test")


# These take longest, or start what takes long to start: first, so that nobody waits for them in the end.
FIRST = (
    "test_first_update.py",
    "test_fuzz.py",
    "test_manager_page.py",
    "test_performance.py",
    "test_processes.py",
    "test_ray.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked long, of which `make test` has shorter brothers, are for `make soak`."""
    items.sort(key=lambda item: item.path.name not in FIRST)
    for item in items:
        if item.get_closest_marker("long") and not SOAKING:
            item.add_marker(pytest.mark.skip(reason="long: for make soak"))


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """One zygote for all runs with real processes: importing torch takes longer than most of them."""
    from littoral.worlds.processes.launch import Forge

    with Forge() as forge:
        yield forge
