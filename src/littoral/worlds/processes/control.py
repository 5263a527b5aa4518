"""What coordinator and nodes say to each other besides the strategy's own messages: small, plain, in order.

A *generation* numbers the groups of a run: it grows whenever programs start over together, and a message of an
older one is nobody's any more. A *series* numbers the fresh beginnings of one node: leases of an older one are void.
"""

from __future__ import annotations

from typing import Any

from littoral.events import AnyEvent
from littoral.learning.leases import Lease
from littoral.worlds.node import Message
from littoral.worlds.wire.endpoint import Peer

COORDINATOR = "coordinator"

# -- from a node to the coordinator -------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """My process is up and listens at ``address``."""

    address: str
    pid: int


class Beat(Message, frozen=True):
    """I am alive; my machine's clock says ``sent``."""

    sent: float


class AskLeases(Message, frozen=True):
    """I need ``count`` more leases of ``batch`` samples."""

    series: int
    batch: int
    count: int


class CommitLeases(Message, frozen=True):
    """The gradients of these leases are in the model."""

    leases: tuple[Lease, ...]


class ReleaseLeases(Message, frozen=True):
    """These were not used after all."""

    leases: tuple[Lease, ...]


class RoundDone(Message, frozen=True):
    """I have the result of this round of the group's collective; these leases went into it."""

    generation: int
    number: int
    leases: tuple[Lease, ...]


class ReportEvents(Message, frozen=True):
    """What happened here lately."""

    events: tuple[AnyEvent, ...]


class ProgramHalted(Message, frozen=True):
    """My program is at rest; ``rounds`` collectives are in my model."""

    generation: int
    rounds: int


class ProgramFinished(Message, frozen=True):
    """My program has no work left."""

    generation: int


class ProgramFailed(Message, frozen=True):
    """My program raised an error that nobody foresaw."""

    error: str


class PeerWentAway(Message, frozen=True):
    """My program waited for a node that is gone, and has ended."""

    generation: int


class StateTaken(Message, frozen=True):
    """The state asked for is this instant's; its parts follow."""

    request: int
    rounds: int


class StatePart(Message, frozen=True):
    """One tensor of a node's model."""

    request: int
    name: str
    last: bool
    vector: Any


class StateLoaded(Message, frozen=True):
    """What was sent with ``LoadState`` is in place."""

    request: int


class WorkerFenced(Message, frozen=True):
    """No lease of that worker below the given number will be used here any more."""

    request: int


# -- from the coordinator to a node -------------------------------------------------------------------------------


class Echo(Message, frozen=True):
    """The answer to a beat: the run's clock said ``now`` when it arrived."""

    sent: float
    now: float


class ClockZero(Message, frozen=True):
    """The run begins: its second 0 is ``shift`` seconds later than said so far."""

    shift: float


class Roster(Message, frozen=True):
    """Where the others are; a name met before with another key has been started anew."""

    peers: tuple[Peer, ...]


class GrantLeases(Message, frozen=True):
    """Work; fewer leases than asked for: there is no more at present."""

    series: int
    leases: tuple[Lease, ...]
    exhausted: bool


class MoreWork(Message, frozen=True):
    """There is work again: ask."""


class StartProgram(Message, frozen=True):
    """Run your program from its beginning, as a member of this group, whose models hold ``rounds`` collectives."""

    generation: int
    series: int
    members: tuple[str, ...]
    absent: tuple[str, ...]  # nodes of the plan that are not there
    batch: int
    rounds: int


class HaltProgram(Message, frozen=True):
    """Stop your program where nothing is half done, and say so."""

    generation: int


class MemberLeft(Message, frozen=True):
    """A node is gone; the program goes on."""

    node: str
    members: tuple[str, ...]


class MemberJoined(Message, frozen=True):
    """A node is (back) in; the program goes on."""

    node: str
    members: tuple[str, ...]


class SetBatch(Message, frozen=True):
    """Lease this many samples a step from now on."""

    batch: int


class AskState(Message, frozen=True):
    """Send your vector as it is when nothing is half done; ``whole``: the optimiser's memory too."""

    request: int
    whole: bool


class LoadState(Message, frozen=True):
    """One tensor to put into the model."""

    request: int
    name: str
    last: bool
    vector: Any


class FenceWorker(Message, frozen=True):
    """Use no lease of ``worker`` numbered below ``below``."""

    request: int
    worker: str
    below: int


class EndRun(Message, frozen=True):
    """It is over."""


KINDS: tuple[type[Message], ...] = (
    Hello, Beat, AskLeases, CommitLeases, ReleaseLeases, RoundDone, ReportEvents, ProgramHalted, ProgramFinished,
    ProgramFailed, PeerWentAway, StateTaken, StatePart, StateLoaded, WorkerFenced, Echo, ClockZero, Roster,
    GrantLeases, MoreWork, StartProgram, HaltProgram, MemberLeft, MemberJoined, SetBatch, AskState, LoadState,
    FenceWorker, EndRun,
)  # fmt: skip


def kinds_in(module: Any) -> list[type[Message]]:
    """The messages that a module defines: what a strategy may send, and nothing else."""
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Message)]
    return [kind for kind in found if kind.__module__ == module.__name__]
