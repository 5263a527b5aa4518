from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "data") as running:
        yield running
