"""How an app does, counted the same way in every world."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    """How an app has done so far; dropped periods count as violations but have no latency."""

    deadline_s: float
    checked: int = 0
    violated: int = 0
    done: int = 0
    total_s: float = 0.0
    worst_s: float = 0.0

    def add(self, latency_s: float | None) -> bool:
        """Book one period (None: dropped); whether it kept its deadline."""
        self.checked += 1
        if latency_s is not None:
            self.done += 1
            self.total_s += latency_s
            self.worst_s = max(self.worst_s, latency_s)
        kept = latency_s is not None and latency_s <= self.deadline_s * (1 + 1e-9)
        self.violated += not kept
        return kept

    @property
    def mean_s(self) -> float:
        """Mean latency of the periods that were worked on."""
        return self.total_s / max(1, self.done)
