"""What the drawing of a continuum shows: who is where and in which state, who is busy, what crosses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from littoral.continuum.continuum import Continuum
from littoral.manager.devices import DeviceRecord
from littoral.manager.page.loads import Loads
from littoral.reports.outline import Outline, Tie


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is drawn: what there is, who is in which state, what is busy."""

    continuum: Continuum
    outline: Outline
    devices: Mapping[str, DeviceRecord]
    loads: Loads
    members: Mapping[str, tuple[str, ...]]  # the sites of each place

    def carried(self, tie: Tie) -> float:
        """Bytes/s between two places."""
        return sum(self.loads.rate(low, high) for low in self.members[tie.low] for high in self.members[tie.high])

    def has_curve(self, tie: Tie) -> bool:
        """All ties have one, or in a mesh, where they would hide each other, those in use."""
        return len(self.outline.ties) <= 2 * len(self.outline.places) or self.carried(tie) > 0
