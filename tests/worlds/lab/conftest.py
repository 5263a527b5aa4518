"""Labs take the whole machine's attention: their tests run one at a time, and each must leave nothing behind."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from littoral.worlds.lab import register
from littoral.worlds.lab.parts import missing_parts


@pytest.fixture
def machine() -> Iterator[None]:
    """This machine to itself, if a lab can work here; afterwards it must be as it was."""
    if missing := missing_parts():
        pytest.skip(f"no lab here: {'; '.join(missing)}")
    with (Path(tempfile.gettempdir()) / "littoral-lab-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes wait here
        before = _nobodys()
        yield
        assert _nobodys() <= before, "something of a lab is left"


def _nobodys() -> set[str]:
    """Labs of which there is something although no other living process owns them."""
    names = register.found()  # first: a lab is on record before anything of it can be found
    owned = {record.name for record in register.records() if record.owner.alive and record.owner.pid != os.getpid()}
    return set(names) - owned
