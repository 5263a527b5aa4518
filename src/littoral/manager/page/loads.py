"""Who works how hard now, and what crosses between sites: from the newest lines of the runs at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from littoral.manager.paging import Window
from littoral.manager.runs import RunState

if TYPE_CHECKING:
    from littoral.continuum.continuum import Continuum
    from littoral.manager.follower import Follower
    from littoral.manager.manager import Manager

_ROWS = 12  # of the feed, over which rates are taken: a few seconds


@dataclass
class Loads:
    """``busy`` is a share of 1 for each device, ``rates`` bytes/s between two sites, in either direction."""

    busy: Counter[str] = field(default_factory=Counter)
    rates: Counter[tuple[str, str]] = field(default_factory=Counter)

    def rate(self, a: str, b: str) -> float:
        """Between two sites, both ways together."""
        return float(self.rates[a, b] + (self.rates[b, a] if a != b else 0))


def loads_of(manager: Manager, continuum: Continuum) -> Loads:
    """Of all runs at work in a continuum."""
    found = Loads()
    for run in manager.runs.listed(Window(limit=100), RunState.RUNNING).items:
        follower = manager.launcher.following(run.number)
        if follower is not None and manager.jobs.get(run.job).document.get("continuum") == continuum.name:
            add_loads(found, follower.rows, follower.devices, _sites(continuum, follower))
    return found


def _sites(continuum: Continuum, follower: Follower) -> dict[str, str]:
    site_of = {device.name: device.site for device in continuum.devices}
    return {node: site_of.get(device, "") for node, device in follower.devices.items()}


def add_loads(
    found: Loads, rows: Iterable[Mapping[str, Any]], devices: Mapping[str, str], sites: Mapping[str, str]
) -> None:
    """What a run's newest lines say; ``devices`` and ``sites`` are those of its nodes."""
    newest = list(rows)[-_ROWS:]
    seconds = newest[-1]["t"] - newest[0]["t"] if len(newest) > 1 else 0.0
    if seconds <= 0:
        return
    for row in newest[1:]:
        for node, busy in row["busy"].items():
            found.busy[devices.get(node, node)] += busy / seconds
        for pair, size in row["sent"].items():
            source, _, target = pair.partition(">")
            found.rates[sites.get(source, ""), sites.get(target, "")] += size / seconds
