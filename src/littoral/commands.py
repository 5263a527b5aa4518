"""What the supervisor wants done, as values; a world turns them into acts.

A command takes effect as soon as the world can do it, and commands take effect in the order they were given.
``weights`` and ``heirs`` name workers; work is shared among them in proportion.
"""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, frozen=True, tag=True, tag_field="command"):
    """Something to do now."""


class Exclude(Command, frozen=True, tag=True):
    """Go on without a worker.

    It is no member any more, its leases are void, and its open samples go to ``heirs`` by weight (without heirs
    they wait). A collective that is under way ends with ``Regrouped``, whoever waits for it gets ``PeerLost``,
    everybody is sent ``Left``, and heirs whose program had ended start again. Given before the run begins, the
    worker's program is never started.
    """

    node: str
    heirs: dict[str, float]


class Admit(Command, frozen=True, tag=True):
    """Let a worker (back) in, without going back.

    It becomes a member, all open samples are shared anew by weight, a collective that is under way ends with
    ``Regrouped``, everybody else is sent ``Joined``, and its program starts; where workers hold the model it is first
    given another member's (if there is none, the checkpoint's, and the run goes back to it). While a ``Restart`` is
    under way the worker is only added to those that will start, and ``weights`` replace the restart's.
    """

    node: str
    weights: dict[str, float]


class Relaunch(Command, frozen=True, tag=True):
    """Start a server that is back again; only its own process is new.

    Every program ends, everybody goes back to the last checkpoint (``Resumed``), its open samples are shared by weight
    if its members were others, and all programs start from their beginning, at once.
    """

    node: str
    weights: dict[str, float]


class Restart(Command, frozen=True, tag=True):
    """Kill everyone and begin again from the last checkpoint.

    At once: every program ends, and the workers of ``weights`` are the members. Then all servers and members are
    launched anew, which takes as long as a launch takes; a lost one whose process merely died is launched with them,
    told as returned when it answers, and admitted. When that time is over: everybody goes back to the last checkpoint
    (``Resumed``), its open samples are shared by weight if its members were others, and whoever is there starts;
    nobody is waited for any longer (who is missing and was not told as lost yet, is told as usual). A second
    ``Restart`` meanwhile takes the place of the first. Without weights nobody works until an ``Admit``.
    """

    weights: dict[str, float]


class Rebatch(Command, frozen=True, tag=True):
    """Change a node's batch size, from its next lease on."""

    node: str
    batch: int


class SaveCheckpoint(Command, frozen=True, tag=True):
    """Make the present state resumable; what is leased counts as not used."""


class Stop(Command, frozen=True, tag=True):
    """End the run: ``reason`` is 'target', 'epochs' or what went wrong; ``failed`` tells which."""

    reason: str
    failed: bool = False


AnyCommand = Exclude | Admit | Relaunch | Restart | Rebatch | SaveCheckpoint | Stop
