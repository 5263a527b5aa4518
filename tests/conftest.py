from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from littoral.worlds.processes.launch import Forge

# One thread per process: sums come out the same every time, and two test processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """One zygote for all runs with real processes: importing torch takes longer than most of them."""
    from littoral.worlds.processes.launch import Forge

    with Forge() as forge:
        yield forge
