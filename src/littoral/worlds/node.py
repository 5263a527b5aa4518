"""What a node program sees: itself, its model, its peers, time. No socket, no thread, no wall clock.

The same program runs in every world. Membership is handled below it: a receive from a node that is gone raises
``PeerLost``, a collective whose group changed raises ``Regrouped``, and a program that lets either pass is simply
started again with the new membership; samples it had leased and not committed are leased again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from littoral.continuum.link import HEADER_BYTES
from littoral.learning.leases import Lease
from littoral.planning.plan import Plan


class Message(msgspec.Struct, frozen=True):
    """Base of everything nodes send each other. A field called ``vector`` is its payload."""

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        vector = getattr(self, "vector", None)
        return HEADER_BYTES if vector is None else HEADER_BYTES + int(vector.nbytes)


def narrowed(message: Message) -> Message:
    """The message as it crosses with ``wire: float16``: its vector in half the bytes, unless it is coded already."""
    vector = getattr(message, "vector", None)
    if vector is None or vector.nbytes != 4 * len(vector):
        return message
    return msgspec.structs.replace(message, vector=vector.half())


def widened(message: Message) -> Message:
    """What ``narrowed`` left of a message, ready to calculate with."""
    vector = getattr(message, "vector", None)
    if vector is None or vector.nbytes != 2 * len(vector):
        return message
    return msgspec.structs.replace(message, vector=vector.float())


class Left(Message, frozen=True):
    """A member is gone. Arrives in every node's inbox; receive it if you need to react."""

    node: str


class Joined(Message, frozen=True):
    """A member came (back)."""

    node: str


class PeerLost(Exception):
    """The node waited for has left the run."""


class Regrouped(Exception):
    """The group changed during a collective: nothing of it counts."""


class Gradient(msgspec.Struct, frozen=True):
    """What ``compute`` gives: the mean gradient of ``samples`` samples. No work left: zero samples."""

    vector: Any
    samples: int
    lease: Lease | None
    loss: float | None


class Received(msgspec.Struct, frozen=True):
    """A message and who sent it."""

    sender: str
    message: Any


class Reduced(msgspec.Struct, frozen=True):
    """A collective's result: the sample-weighted mean, over ``samples`` samples in all."""

    vector: Any
    samples: int


@runtime_checkable
class Vector(Protocol):
    """What strategies may do with a flat vector: torch tensors can, and so can the timing-only stand-in."""

    @property
    def nbytes(self) -> int: ...
    def __getitem__(self, index: slice, /) -> Any: ...
    def clone(self) -> Any: ...
    def half(self) -> Any: ...
    def float(self) -> Any: ...


class Model(Protocol):
    """A node's copy of the model, or of its part of it."""

    @property
    def vector(self) -> Any:
        """The live flat vector."""
        ...

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """A worker's: where each tensor that learns begins and ends in the vector; what follows is carried along."""
        ...

    @property
    def trained(self) -> int:
        """How many of its elements learn; the rest, at its end, are carried statistics."""
        ...

    def load(self, vector: Any, start: int = 0) -> None:
        """Copy a (slice of a) vector in."""
        ...

    def snapshot(self) -> Any:
        """A copy that later steps do not change."""
        ...

    def mean(self, parts: Sequence[tuple[Any, float]]) -> Any:
        """The weighted mean of vectors; weights need not sum to one."""
        ...

    def step(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        """One optimiser step for a mean gradient over ``samples`` samples, ``factor`` times as long as they deserve.

        ``seen`` is how many samples the model has seen by it, for warming up; as a rule, all of these.
        """
        ...

    def forget(self) -> None:
        """Drop what the optimiser remembers of earlier steps: the model has been moved by other means."""
        ...


N = TypeVar("N", bound=Message)
T = TypeVar("T")


class Node(Protocol):
    """One participant of a run."""

    name: str
    plan: Plan
    model: Model
    batch: int  # samples of the leases I ask for from now on

    @property
    def generation(self) -> int:
        """How often the group has begun together: more than 1 after a member came or went, a rollback or a resume."""
        ...

    @property
    def now(self) -> float:
        """The world's clock, in seconds."""
        ...

    @property
    def members(self) -> tuple[str, ...]:
        """The workers that are in the run now, in the plan's order."""
        ...

    async def compute(self) -> Gradient:
        """Lease the next batch of my shard and compute its gradient."""
        ...

    async def send(self, target: str, message: Message) -> None:
        """Queue a message; to one target they arrive in order."""
        ...

    async def receive(self, *kinds: type[Message], sender: str | None = None) -> Received:
        """The oldest message of these kinds (from ``sender``); waits for one."""
        ...

    async def arrived(self, *kinds: type[Message]) -> list[Received]:
        """All messages of these kinds that are here already, oldest first; does not wait."""
        ...

    async def all_reduce(self, gradient: Gradient) -> Reduced:
        """Mean gradient over all members, weighted by samples; commits their leases. All of them or none."""
        ...

    async def commit(self, leases: Sequence[Lease]) -> list[bool]:
        """Declare samples used, before using their gradients; False where a lease is no longer valid."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Declare samples not used after all; their worker leases them again."""
        ...

    async def update(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        """``model.step``, taking the time it takes on this device."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        ...

    def spawn(self, program: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Run a coroutine beside this one; it ends with the node. Awaiting what is returned gives its result."""
        ...

    def random(self, stream: str) -> random.Random:
        """A generator of its own for each named purpose."""
        ...
