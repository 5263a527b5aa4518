"""A node in virtual time: an inbox, a machine, and the tasks of its program."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any

from littoral.events import Computed
from littoral.learning.leases import Lease
from littoral.planning.collective import cut, ends
from littoral.planning.plan import Plan
from littoral.worlds.node import Gradient, Joined, Left, Message, Model, PeerLost, Received, Reduced, narrowed, widened
from littoral.worlds.simulated.kernel import Resume, Task, sleep
from littoral.worlds.simulated.machine import Machine, noise

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session

_PASSES = 3  # times a step reads or writes the vector in memory


class _Waiter:
    """A task parked in ``receive``."""

    __slots__ = ("kinds", "sender", "task")

    def __init__(self, task: Resume, kinds: tuple[type[Message], ...], sender: str | None) -> None:
        self.task, self.kinds, self.sender = task, kinds, sender

    def wants(self, received: Received) -> bool:
        return isinstance(received.message, self.kinds) and self.sender in (None, received.sender)


class SimulatedNode:
    """Implements ``worlds.node.Node``."""

    def __init__(self, session: Session, name: str, machine: Machine, model: Any, batch: int) -> None:
        self.name, self.machine, self.batch = name, machine, batch
        self.model: Model = model
        self.plan: Plan = session.plan
        self.alive = True
        self.noticed = False  # whether the coordinator knows that it is not
        self.running = False
        self.tasks: set[Resume] = set()
        self._session, self._kernel = session, session.kernel
        self._inbox: list[Received] = []
        self._waiters: list[_Waiter] = []
        self._draw = session.random(f"noise/{name}").lognormvariate
        self._narrow = session.plan.wire == "float16"

    @property
    def now(self) -> float:
        return self._kernel.now

    @property
    def generation(self) -> int:
        return self._session.generation

    @property
    def members(self) -> tuple[str, ...]:
        return self._session.members

    async def compute(self) -> Gradient:
        lease = self._session.books.lease(self.name, self.batch)
        model: Any = self.model
        if lease is None:
            return Gradient(model.empty(), 0, None, None)
        start, samples = self._kernel.now, lease.samples
        # The mathematics sees the parameters as they are now; the result is there when the device is done.
        vector, loss = model.gradient(lease.spans)
        device = self.machine.device
        seconds = device.step.seconds(self._session.footprint, samples) * noise(device, self._draw)
        await self.machine.work(seconds)
        epoch = lease.spans[0].epoch
        self._session.emit(Computed(self._kernel.now, self.name, start, samples, epoch, loss))
        return Gradient(vector, samples, lease, loss)

    async def send(self, target: str, message: Message) -> None:
        self._session.post.send(self.name, target, narrowed(message) if self._narrow else message)

    @coroutine
    def receive(self, *kinds: type[Message], sender: str | None = None) -> Generator[None, Any, Received]:
        waiter = _Waiter(self._kernel.current, kinds, sender)
        for index, received in enumerate(self._inbox):
            if waiter.wants(received):
                return self._inbox.pop(index)
        self._waiters.append(waiter)
        delivered: Received = yield None
        return delivered

    def deliver(self, received: Received) -> Any:
        """A message arrived: hand it to a task that waits for it, within this very event, or keep it."""
        if self._narrow:
            received = Received(received.sender, widened(received.message))
        for waiter in self._waiters:
            if waiter.wants(received):
                self._waiters.remove(waiter)
                self._kernel._current = waiter.task
                return waiter.task(received)
        self._inbox.append(received)
        return None

    async def arrived(self, *kinds: type[Message]) -> list[Received]:
        here = [received for received in self._inbox if isinstance(received.message, kinds)]
        self._inbox = [received for received in self._inbox if not isinstance(received.message, kinds)]
        return here

    async def all_reduce(self, gradient: Gradient) -> Reduced:
        handling = self.machine.device.handling
        if handling is not None and len(self.members) > 1:
            parts = cut(self.members, self._session.plan.reducing, gradient.vector.nbytes // 4)
            messages, elements = ends(parts, self.name)
            await self.machine.work(handling.seconds((2 if self._narrow else 4) * elements, messages))
        return await self._session.ring.join(self.name, gradient)

    async def commit(self, leases: Sequence[Lease]) -> list[bool]:
        return self._session.books.commit(leases)

    async def release(self, leases: Sequence[Lease]) -> None:
        self._session.books.release(leases)

    async def update(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        self.model.step(gradient, samples, factor, seen)
        await sleep(_PASSES * gradient.nbytes / self.machine.device.memory_bytes_per_s)

    async def sleep(self, seconds: float) -> None:
        await sleep(seconds)

    def spawn(self, program: Coroutine[Any, Any, Any]) -> Task:
        task = Task(self._kernel, program, lambda: self.tasks.discard(resume))
        resume = self._kernel.spawn(task)
        self.tasks.add(resume)
        return task

    def random(self, stream: str) -> random.Random:
        return self._session.random(f"{self.name}/{stream}")

    # -- for the session ----------------------------------------------------------------------------------------

    def kill(self) -> None:
        """The process is gone, with everything it knew."""
        for task in self.tasks:
            self._kernel.kill(task)
        self.machine.forget(self.tasks)
        self.tasks.clear()
        self._inbox.clear()
        self._waiters.clear()
        self.running = False

    def lose(self, peer: str) -> None:
        """Whoever waits for this peer need not wait any longer."""
        for waiter in [w for w in self._waiters if w.sender == peer]:
            self._waiters.remove(waiter)
            self._kernel.throw(waiter.task, PeerLost(peer))

    def deliver_soon(self, received: Received) -> None:
        """Deliver news from the coordinator, after what is already happening at this instant."""
        self._kernel.call_soon(self.deliver, received)

    def forget_messages(self) -> None:
        """A program that starts again must not read its predecessor's mail."""
        self._inbox.clear()


class HandlingNode(SimulatedNode):
    """A node that pays for its messages with time of its device, where it competes with whatever else runs there."""

    async def send(self, target: str, message: Message) -> None:
        await self._handle(message)
        await super().send(target, message)

    async def receive(self, *kinds: type[Message], sender: str | None = None) -> Received:  # type: ignore[override]
        received = await super().receive(*kinds, sender=sender)
        if not isinstance(received.message, Left | Joined):
            await self._handle(received.message)
        return received

    async def arrived(self, *kinds: type[Message]) -> list[Received]:
        here = await super().arrived(*kinds)
        for received in here:
            if not isinstance(received.message, Left | Joined):
                await self._handle(received.message)
        return here

    async def _handle(self, message: Message) -> None:
        handling = self.machine.device.handling
        assert handling is not None
        await self.machine.work(handling.seconds(message.size / (2 if self._narrow else 1)))
