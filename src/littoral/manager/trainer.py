"""How an update gets its training run: through four questions, so that the life cycle knows nothing of processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from littoral.manager.triggers import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run is doing. ``folder`` is where it keeps its checkpoint; ``again`` whether another try may help."""

    state: Literal["waiting", "running", "finished", "failed", "stopped"]
    folder: Path
    reason: str = ""
    again: bool = True
    cost: Cost | None = None  # what it took, once finished


class Trainer(Protocol):
    """Starts runs and knows what became of them."""

    def start(self, key: str, job: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        """The id of the run of this job. The same key again gives the same run, whatever was killed in between."""
        ...

    def state(self, run: str) -> Standing:
        """How it stands."""
        ...

    def stop(self, run: str) -> None:
        """Nobody wants its result any more."""
        ...

    def predict(self, job: Mapping[str, Any], options: Mapping[str, Any]) -> Cost:
        """What the run of a job should take, by its plan."""
        ...
