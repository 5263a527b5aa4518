"""A strategy outside the package: by its place, or declared by an installed package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from littoral.errors import InputError, RunFailed
from littoral.strategies.peers import Peers
from littoral.strategies.strategy import declared, make_strategy
from littoral.testing import check_strategy, fail_at, live, small_job
from littoral.worlds.node import Node

if TYPE_CHECKING:
    from littoral.worlds.processes.launch import Forge

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-strategy"


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / "whisper.py").read_text().splitlines()) < 40


def test_the_example_keeps_the_contract(beside: None) -> None:
    check_strategy("whisper:Whisper", chance=0.3)
    check_strategy("whisper:Whisper", faults=[fail_at("w-2", 0.6, back_after_s=1.5)])


def test_the_example_runs_with_real_processes(beside: None, forge: Forge) -> None:
    check_strategy("whisper:Whisper", run=lambda job: live(job, launcher=forge))


def test_a_package_declares_its_strategies(beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "whispering-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: whispering\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[littoral.strategies]\nwhisper = whisper:Whisper\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert declared() == {"whisper": "whisper:Whisper"}
    assert make_strategy("whisper", {"chance": 0.1}).name == "whisper"
    check_strategy("whisper")


def test_what_cannot_be_loaded_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "halfway.py").write_text("class Nothing: pass\n")
    for name, match in [
        ("whispr:Whisper", "cannot be loaded: No module named 'whispr'"),
        ("halfway:Something", "cannot be loaded.*Something"),
        ("halfway:Nothing", "has no 'name'"),
        ("gossip", "a class of your own is 'package.module:Class'"),
    ]:
        with pytest.raises(InputError, match=match):
            make_strategy(name, {})
    assert "whispr" not in sys.modules


@dataclass(frozen=True, slots=True, kw_only=True)
class Careless(Peers):
    """Its second task fails while the first waits for it."""

    name: ClassVar[str] = "careless"

    async def worker(self, node: Node) -> None:
        node.spawn(self._fail())
        await node.sleep(3600.0)

    async def _fail(self) -> None:
        raise ZeroDivisionError("nobody awaits this task")


def test_what_a_spawned_task_raises_ends_the_run(forge: Forge) -> None:
    with pytest.raises(RunFailed, match="nobody awaits this task"):
        live(small_job(strategy="test_own_strategy:Careless"), launcher=forge)
