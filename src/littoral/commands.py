"""What the supervisor wants done, as values; a world turns them into acts."""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, frozen=True, tag=True, tag_field="command"):
    """Something to do now."""


class Exclude(Command, frozen=True, tag=True):
    """Go on without a node: the others regroup, and its open samples go to ``heirs`` by weight."""

    node: str
    heirs: dict[str, float]


class Admit(Command, frozen=True, tag=True):
    """Let a node (back) in, and share the open samples anew by weight."""

    node: str
    weights: dict[str, float]


class Relaunch(Command, frozen=True, tag=True):
    """Start a server again: everybody goes back to the last checkpoint, whose open samples are shared by weight."""

    node: str
    weights: dict[str, float]


class Rebatch(Command, frozen=True, tag=True):
    """Change a node's batch size."""

    node: str
    batch: int


class SaveCheckpoint(Command, frozen=True, tag=True):
    """Make the present state resumable."""


class Stop(Command, frozen=True, tag=True):
    """End the run: ``reason`` is 'target', 'epochs' or what went wrong; ``failed`` tells which."""

    reason: str
    failed: bool = False


AnyCommand = Exclude | Admit | Relaunch | Rebatch | SaveCheckpoint | Stop
