"""Links: between two sites, or within one (where ``a == b``)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from littoral.continuum.signal import Signal

HEADER_BYTES = 128  # what a message costs on any link besides its vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A connection described by the user.

    Between sites all traffic of a direction shares ``forward`` (a to b) or ``backward`` (b to a);
    ``half_duplex`` makes both directions share ``forward``. Within a site the rate is that of each device's
    port on a switch that never blocks, unless ``shared``: then ``forward`` is one medium for everybody, as
    Wi-Fi is. ``latency_s`` is one way.
    """

    a: str
    b: str
    forward: Signal
    backward: Signal
    latency_s: float = 0.0
    price_usd_per_byte: float = 0.0
    loss: float = 0.0
    half_duplex: bool = False
    shared: bool = False

    @property
    def name(self) -> str:
        """How messages and faults call it."""
        return f"{self.a}--{self.b}"


def loss_limit(loss: float, latency_s: float) -> float:
    """Most bytes/s of one TCP flow on a lossy path (Mathis et al. 1997): 1.22 * MSS / (RTT * sqrt(loss)).

    >>> round(loss_limit(0.01, 0.05))
    177876
    """
    if loss <= 0.0:
        return math.inf
    return 1.22 * 1458 / (max(2 * latency_s, 1e-4) * math.sqrt(loss))
