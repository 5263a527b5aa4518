"""What samples are worth under each strategy, before anything is known about the job: the prior of ``strategy: auto``.

``efficiency`` is how many samples synchronous SGD needs to a target accuracy, divided by what this strategy needs.
The figures are from our own runs on four continuums with three seeds each (benchmarks/RESULTS.md, "All of them
converge"): one over the mean of the samples needed, rounded to 0.05 and cut at 1, for no strategy is believed to learn
more from a sample than synchronous SGD does. A run that never got there counts with all it was given. They are a prior,
not a measurement of the job at hand: a small network on small pictures, data dealt at random, 4 to 11 workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_TO_ALL = 16  # more members than this do not talk pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A strategy worth considering, with the settings it is considered with."""

    strategy: str
    parameters: dict[str, Any] = field(default_factory=dict)
    efficiency: float
    sites: int = 1  # it needs workers at so many sites
    most: int = 10**9  # and makes no sense with more workers


CANDIDATES = (
    Candidate(strategy="allreduce", efficiency=1.0),
    Candidate(strategy="parameter_server", parameters={"mode": "asp"}, efficiency=1.0),
    Candidate(strategy="parameter_server", parameters={"mode": "ssp"}, efficiency=1.0),
    Candidate(strategy="local_sgd", efficiency=0.9),
    Candidate(strategy="local_sgd", parameters={"period": 16, "site_period": 2}, efficiency=0.95, sites=2),
    Candidate(strategy="diloco", efficiency=1.0),
    Candidate(strategy="diloco", parameters={"mode": "async"}, efficiency=1.0),
    Candidate(strategy="dpsgd", parameters={"topology": "fast-links"}, efficiency=0.8, most=32),
    Candidate(strategy="adpsgd", efficiency=0.85),
    Candidate(strategy="sgp", efficiency=0.95),
    Candidate(strategy="hop", efficiency=0.8),
    Candidate(strategy="prague", efficiency=0.95),
    Candidate(strategy="gaia", efficiency=1.0, sites=2, most=ALL_TO_ALL),
    Candidate(strategy="dlion", parameters={"growth": False}, efficiency=0.85, most=ALL_TO_ALL),
    Candidate(strategy="fedavg", efficiency=0.85),
    Candidate(strategy="fedbuff", efficiency=0.6),
)


def applicable(sites: Sequence[str]) -> tuple[Candidate, ...]:
    """The candidates for workers at these sites, one entry per worker."""
    return tuple(c for c in CANDIDATES if c.sites <= len(set(sites)) and len(sites) <= c.most)
