"""Where the processes of a run live: all on this machine's loopback, or each in its own corner of the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from littoral.worlds.lab.places import Place

if TYPE_CHECKING:
    from littoral.worlds.lab.lab import Lab

LOOPBACK = Place(address="127.0.0.1")


@dataclass(frozen=True, slots=True)
class Ground:
    """Without a lab every device is this machine itself."""

    lab: Lab | None = None

    def place(self, device: str) -> Place:
        """Where a device's processes live."""
        return LOOPBACK if self.lab is None else self.lab.place(device)

    @property
    def coordinator(self) -> Place:
        """Where the coordinator is reached."""
        return LOOPBACK if self.lab is None else self.lab.coordinator

    def start_clock(self) -> None:
        """The run begins."""
        if self.lab is not None:
            self.lab.start_clock()
