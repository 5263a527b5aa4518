"""How much memory peers may cost."""

from __future__ import annotations

from dataclasses import dataclass

from littoral.worlds.wire.frames import Priority

_SIXTEENTHS = {Priority.CONTROL: 1, Priority.URGENT: 3, Priority.BULK: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes per message, per sender at the receiver, and per target and priority at the sender."""

    largest_message: int = 1024**3
    unread_bytes: int = 64 * 1024**2
    queued_bytes: int = 64 * 1024**2

    def __post_init__(self) -> None:
        if min(self.largest_message, self.unread_bytes, self.queued_bytes) < 1024:
            raise ValueError("every limit must be at least 1024 bytes")

    @property
    def shares(self) -> dict[Priority, int]:
        """Each lane's part of ``unread_bytes``: unread bulk must not keep a control message out."""
        return {priority: self.unread_bytes * part // 16 for priority, part in _SIXTEENTHS.items()}
