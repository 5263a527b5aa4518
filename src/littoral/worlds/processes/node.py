"""A node as a process: its inbox, its model, its program, and a thread for the mathematics.

The event loop never computes: messages flow while the thread works. A program is halted only where nothing is half
done: between a commit and the update that follows it, it is let go on.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from littoral.events import Computed, Event
from littoral.learning.leases import Lease
from littoral.planning.plan import Plan
from littoral.worlds.node import Gradient, Message, Model, PeerLost, Received, Reduced, narrowed, widened
from littoral.worlds.processes.control import CommitLeases, ProgramFailed, ReleaseLeases, RoundDone
from littoral.worlds.processes.exchange import exchange
from littoral.worlds.processes.leasing import Leasing
from littoral.worlds.wire.endpoint import Arrival, Endpoint, PeerGone

T = TypeVar("T")

INLINE_BYTES = 1 << 20  # an update of less than this is over before a thread would have begun


@dataclass(frozen=True, slots=True)
class News:
    """What the coordinator has to tell, in the shape of an arrival."""

    sender: str
    message: Message
    tag: int

    def release(self) -> None:
        """It cost nobody credit."""


class _Waiter:
    """A task parked in ``receive``."""

    def __init__(self, kinds: tuple[type[Message], ...], sender: str | None) -> None:
        self.kinds, self.sender = kinds, sender
        self.future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

    def wants(self, sender: str, message: Message) -> bool:
        return isinstance(message, self.kinds) and self.sender in (None, sender)


@dataclass
class _Work:
    """A lease, and its gradient when it is computed; kept until it is certain that it was used."""

    lease: Lease
    future: asyncio.Future[Gradient]
    handed_out: bool = False


class ProcessNode:
    """Implements ``worlds.node.Node``."""

    def __init__(
        self, name: str, plan: Plan, model: Any, endpoint: Endpoint, *,
        clock: Callable[[], float], post: Callable[[Message], None], report: Callable[[Event], None],
        supply: Callable[[Sequence[Any]], Coroutine[Any, Any, None]] | None, seed: int,
    ) -> None:  # fmt: skip
        self.name, self.plan = name, plan
        self.model: Model = model
        self.members: tuple[str, ...] = ()
        self.absent: set[str] = set()
        self.generation = 0
        self.rounds = 0
        self.narrow = plan.wire == "float16"
        self.leasing = Leasing(post)
        self._endpoint, self._clock, self._post, self._report = endpoint, clock, post, report
        self._supply, self._seed = supply, seed
        self._inbox: list[Arrival | News] = []
        self._early: list[Arrival | News] = []  # of a generation that has not begun here yet
        self._waiters: list[_Waiter] = []
        self._work: _Work | None = None
        self._unused: Lease | None = None  # whose gradient was dropped, for the model changed under it
        self._fences: dict[str, int] = {}
        self._owing: asyncio.Task[Any] | None = None  # the task that owes that update
        self._settled = asyncio.Event()
        self._settled.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mathematics")
        self.tasks: set[asyncio.Task[Any]] = set()

    # -- the program's side -------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        return self.leasing.batch

    @batch.setter
    def batch(self, samples: int) -> None:
        self.leasing.batch = samples

    @property
    def now(self) -> float:
        return self._clock()

    async def compute(self) -> Gradient:
        self.settle()
        if self._work is None or self._work.handed_out:
            lease = await self.leasing.next()
            if lease is None:
                model: Any = self.model
                self._work = None
                return Gradient(model.empty(), 0, None, None)
            self._work = _Work(lease, asyncio.ensure_future(self._gradient(lease)))
        work = self._work
        gradient = await asyncio.shield(work.future)
        work.handed_out = True
        return gradient

    async def _gradient(self, lease: Lease) -> Gradient:
        if self._supply is not None:
            await self._supply(lease.spans)
        model: Any = self.model
        start = self.now
        vector, loss = await self.in_thread(model.gradient, lease.spans)
        self._report(Computed(self.now, self.name, start, lease.samples, lease.spans[0].epoch, loss))
        return Gradient(vector, lease.samples, lease, loss)

    async def in_thread(self, act: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act, *arguments)

    async def send(self, target: str, message: Message) -> None:
        if target == self.name:  # from one task of the program to another
            return self.take(News(self.name, message, self.generation))
        # One priority for all of a strategy's messages: they must not overtake each other.
        with suppress(PeerGone):  # to somebody who has left: nobody misses it
            await self._endpoint.send(target, narrowed(message) if self.narrow else message, tag=self.generation)

    async def receive(self, *kinds: type[Message], sender: str | None = None) -> Received:
        self.settle()
        waiter = _Waiter(kinds, sender)
        for index, arrival in enumerate(self._inbox):
            if waiter.wants(arrival.sender, arrival.message):
                del self._inbox[index]
                arrival.release()
                return self._received(arrival)
        if sender in self.absent:
            raise PeerLost(sender)
        self._waiters.append(waiter)
        try:
            return await waiter.future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def arrived(self, *kinds: type[Message]) -> list[Received]:
        self.settle()
        here = [arrival for arrival in self._inbox if isinstance(arrival.message, kinds)]
        self._inbox = [arrival for arrival in self._inbox if not isinstance(arrival.message, kinds)]
        for arrival in here:
            arrival.release()
        return [self._received(arrival) for arrival in here]

    async def all_reduce(self, gradient: Gradient) -> Reduced:
        self.settle()
        number = self.rounds + 1
        reduced, leases = await exchange(self, gradient, number)
        # From here to the program's update nothing waits: a halt finds the round either whole or not begun.
        self.rounds = number
        self._work = None
        self._due()
        self._post(RoundDone(self.generation, number, leases))
        return reduced

    async def commit(self, leases: Sequence[Lease]) -> list[bool]:
        valid = [lease.number >= self._fences.get(lease.worker, 0) for lease in leases]
        used = tuple(lease for lease, good in zip(leases, valid, strict=True) if good)
        if used:
            if self._work is not None and self._work.lease in used:
                self._work = None  # it must not be handed out again
            self._due()
            self._post(CommitLeases(used))
        return valid

    async def release(self, leases: Sequence[Lease]) -> None:
        self._post(ReleaseLeases(tuple(leases)))

    async def update(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        if gradient.nbytes < INLINE_BYTES:
            self.model.step(gradient, samples, factor, seen)
        else:
            await self.in_thread(self.model.step, gradient, samples, factor, seen)
        self.settle()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, program: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(program)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, PeerLost | PeerGone):  # nobody else might ever see it
            self._post(ProgramFailed("".join(traceback.format_exception(error, limit=-4))))

    def random(self, stream: str) -> random.Random:
        return random.Random(f"{self._seed}/{self.name}/{stream}")

    # -- the process's side -------------------------------------------------------------------------------------

    def begin(self, generation: int, members: Sequence[str], absent: Sequence[str], rounds: int) -> None:
        """A program is about to start in this group."""
        self.generation, self.members, self.absent = generation, tuple(members), set(absent)
        if rounds > self.rounds:  # the gradient at hand is in the model that was sent here
            self._work = self._unused = None
        if self._work is not None:
            self._work.handed_out = False
        if self._unused is not None:
            self.leasing.put_back(self._unused)
        self._unused, self.rounds = None, rounds
        kept, self._inbox, self._early = self._early, [], []
        for arrival in kept:
            self.take(arrival)

    def forget_work(self) -> None:
        """The model is another one now: gradients computed on the old one do not count."""
        if self._work is not None:
            self._work.future.cancel()
            self._unused, self._work = self._work.lease, None

    def drop_work(self) -> None:
        """A fresh beginning: the lease is void too."""
        if self._work is not None:
            self._work.future.cancel()
        self._work = self._unused = None

    def take(self, arrival: Arrival | News) -> None:
        """A strategy's message arrived: hand it to a task that waits for it, or keep it."""
        if arrival.tag < self.generation:
            arrival.release()
        elif arrival.tag > self.generation:
            self._early.append(arrival)
        else:
            for waiter in self._waiters:
                if waiter.wants(arrival.sender, arrival.message) and not waiter.future.done():
                    self._waiters.remove(waiter)
                    arrival.release()
                    waiter.future.set_result(self._received(arrival))
                    return
            self._inbox.append(arrival)

    def _received(self, arrival: Arrival | News) -> Received:
        return Received(arrival.sender, widened(arrival.message) if self.narrow else arrival.message)

    def tell(self, sender: str, message: Message) -> None:
        """News from the coordinator, as a message from the node it is about."""
        self.take(News(sender, message, self.generation))

    def lose(self, peer: str) -> None:
        """Whoever waits for this peer need not wait any longer."""
        self.absent.add(peer)
        for waiter in [each for each in self._waiters if each.sender == peer]:
            self._waiters.remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(PeerLost(peer))

    def fence(self, worker: str, below: int) -> None:
        """Leases of a worker that was taken out must not be used."""
        self._fences[worker] = below

    def _due(self) -> None:
        self._owing = asyncio.current_task()
        self._settled.clear()

    def settle(self) -> None:
        """Whatever this task committed is in the model: another task that goes on says nothing about it."""
        if self._owing is None or self._owing is asyncio.current_task() or self._owing.done():
            self._owing = None
            self._settled.set()

    async def settled(self) -> None:
        """Wait until nothing is half done."""
        await self._settled.wait()

    async def halt(self) -> None:
        """Stop the program and what it spawned."""
        await self.settled()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiters.clear()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
