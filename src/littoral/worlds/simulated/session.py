"""One run in virtual time: nodes, their machines and the network between them, driven by the kernel.

The coordinator (ledger, evaluation, membership) costs no virtual time and its commands take effect at once, but it
can be away; a node that dies is noticed after ``DETECTION_S``. docs/assumptions.md lists what is left out.
"""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, Restart, SaveCheckpoint, Stop
from littoral.continuum.routes import Routes
from littoral.continuum.signal import Constant
from littoral.events import (
    Event,
    NodeFinished,
    NodeStarted,
    Resumed,
    RunFinished,
    Sent,
)
from littoral.job import Job
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Strategy
from littoral.worlds.node import PeerLost, Received, Regrouped
from littoral.worlds.simulated.apps import AppRunner
from littoral.worlds.simulated.books import Books, Keeper, Mathematics
from littoral.worlds.simulated.coordinator import Coordinator
from littoral.worlds.simulated.faults import Faults
from littoral.worlds.simulated.kernel import Kernel
from littoral.worlds.simulated.machine import Machine
from littoral.worlds.simulated.membership import Membership
from littoral.worlds.simulated.node import SimulatedNode
from littoral.worlds.simulated.outages import Outages
from littoral.worlds.simulated.post import Parcel, Post
from littoral.worlds.simulated.ring import Ring
from littoral.worlds.simulated.stores import Stores
from littoral.worlds.simulated.supplied import node_kind

PATIENCE_S = 3 * 3600.0  # virtual time to wait for a node without which nothing goes on
STALL_S = 30 * 86400.0  # virtual time without a sample used after which a run is stuck


class Session:
    """Implements ``worlds.world.Session`` in virtual time."""

    def __init__(
        self, *, job: Job, plan: Plan, strategy: Strategy, footprint: Any, mathematics: Mathematics,
        keeper: Keeper, seed: int,
    ) -> None:  # fmt: skip
        self.job, self.plan, self.strategy, self.footprint, self.seed = job, plan, strategy, footprint, seed
        self.kernel = Kernel()
        self.members: tuple[str, ...] = tuple(worker.name for worker in plan.workers)
        self.routes = Routes(job.continuum)
        self.device_of = dict(plan.device_of)
        self.post = Post(self.kernel, self.routes, self.device_of.__getitem__, self._arrive)
        self.machines = {d.name: Machine(self.kernel, d) for d in job.continuum.devices}
        self.nodes: dict[str, SimulatedNode] = {}
        self.ring = Ring(self)
        self.books = Books(self, mathematics, keeper)
        self.stores = Stores(self)
        self.coordinator = Coordinator(self)
        self.membership = Membership(self)
        self._events: list[Event] = []
        self._acts: list[Callable[[], None]] = []
        self.generation = 0
        self.halted = True  # nobody's program runs
        self._stopped = False
        self.apps = AppRunner(self)
        self.outages = Outages(self)
        self._faults = Faults(self)
        batches = {worker.name: worker.batch for worker in plan.workers}
        supplied = {worker.name for worker in plan.workers if worker.store is not None}
        for name, device in self.device_of.items():
            handling = self.machines[device].device.handling is not None
            kind = node_kind(supplied=name in supplied, handling=handling)
            model = self.books.new_model(name)
            self.nodes[name] = kind(self, name, self.machines[device], model, batches.get(name, 0))
        for machine in self.machines.values():
            calm = isinstance(machine.device.load, Constant) and not job.continuum.apps_on(machine.device.name)
            machine.undisturbed = calm and not job.faults and machine.device.handling is None

    # -- the world's side ---------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        # A run makes no cycles worth collecting, and looking for them costs a third of the time at 1,000 nodes.
        collecting = gc.isenabled()
        gc.disable()
        try:
            if not self._stopped:
                self._begin()
            yield from self._until_stopped()
        finally:
            if collecting:
                gc.enable()

    def _until_stopped(self) -> Iterator[Event]:
        while not self._stopped:
            alive = self.kernel.run(until=self.books.last_use_s + self._patience())
            if not self.coordinator.away:
                batch, self._events = self._events, []
                yield from batch
            if not self._stopped:
                self._act()
            if not alive and not self._stopped:
                self._give_up(self._missing() or self.stores.unreached() or "stuck: every node waits for another")
        yield from self._events

    def _give_up(self, reason: str) -> None:
        if self.coordinator.away:
            self.coordinator.forget()
        self._stop(reason)

    def _act(self) -> None:
        acts, self._acts = self._acts, []
        for act in acts:
            act()

    def _patience(self) -> float:
        """How long nothing may be learned before a run is given up."""
        return PATIENCE_S if self._missing() else STALL_S

    def _missing(self) -> str:
        """Without whom nothing can go on."""
        if self.coordinator.away:
            return "the coordinator does not answer"
        for server in self.plan.servers:
            if not self.nodes[server.name].alive:
                return f"{server.name} was lost and did not return"
        return self.stores.missing() if self.members else "no worker is left"

    def emit(self, event: Event) -> None:
        """Tell the supervisor and the journal, when the instant is over."""
        self._events.append(event)
        self.kernel.pause()

    def afterwards(self, act: Callable[[], None]) -> None:
        """Do something when what happened up to now has been told and answered."""
        self._acts.append(act)
        self.kernel.pause()

    def forget_untold(self, keep: Callable[[Event], bool]) -> None:
        """Nobody will hear of what has not been told yet, except of what is to be kept."""
        self._events = [event for event in self._events if keep(event)]

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while; after an infinite one, never."""
        if math.isfinite(seconds):
            self.kernel.call_at(self.kernel.now + seconds, lambda _: act())

    def random(self, stream: str) -> random.Random:
        """A generator of its own for each purpose: more noise here does not shift the dice there."""
        return random.Random(f"{self.seed}/{stream}")

    def _begin(self) -> None:
        if self.books.ledger.done == 0:
            self.books.evaluate()
        self.apps.start()
        self._faults.start()
        self.start_all()

    # -- programs -----------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Run everybody's program who takes part."""
        self.halted = False
        self.generation += 1
        for server in self.plan.servers:
            self.start(server.name)
        for member in self.members:
            self.start(member)

    def start(self, name: str) -> None:
        """Run a node's program from its beginning, if the node is there to run it."""
        node = self.nodes[name]
        if node.alive and not self.halted:
            node.running = True
            node.tasks.add(self.kernel.spawn(self._life(node)))

    async def _life(self, node: SimulatedNode) -> None:
        self.emit(NodeStarted(self.kernel.now, node.name))
        is_server = any(server.name == node.name for server in self.plan.servers)
        if not is_server:
            await self.stores.provide(node.name)
        program = self.strategy.server if is_server else self.strategy.worker
        while True:
            try:
                await program(node)
                break
            except (Regrouped, PeerLost):
                self.books.ledger.release_all(node.name)
                node.forget_messages()
        node.running = False
        self.emit(NodeFinished(self.kernel.now, node.name))

    def withdraw(self, name: str) -> None:
        """A node is gone: nothing it sends, is sent or fetches uses the network any more."""
        self.post.drop(name)
        self.stores.interrupt(name)

    def halt(self) -> None:
        """End every program, with whatever is under way between them."""
        self.halted = True
        self.ring.abort()
        for node in self.nodes.values():
            node.kill()
            self.withdraw(node.name)

    def _arrive(self, parcel: Parcel) -> Any:
        channel = parcel.channel
        self.emit(
            Sent(
                self.kernel.now, channel.source, channel.target, type(parcel.message).__name__,
                parcel.size, parcel.start, channel.route.wide_area,
            )
        )  # fmt: skip
        node = self.nodes[channel.target]
        return node.deliver(Received(channel.source, parcel.message)) if node.alive else None

    # -- commands -----------------------------------------------------------------------------------------------

    def perform(self, command: Command) -> None:
        match command:
            case Exclude(node=node, heirs=heirs):
                self.membership.exclude(node, heirs)
            case Admit(node=node, weights=weights):
                self.membership.admit(node, weights)
            case Relaunch(node=node, weights=weights):
                self.membership.relaunch(node, weights)
            case Restart(weights=weights):
                self.membership.restart(weights)
            case Rebatch(node=node, batch=batch):
                self.nodes[node].batch = batch
            case SaveCheckpoint():
                self.books.save()
            case Stop(reason=reason):
                self._stop(reason)
            case _:
                raise AssertionError(f"unknown command {command}")

    def _stop(self, reason: str) -> None:
        self.apps.finish()
        self._stopped = True
        for node in self.nodes.values():
            node.kill()
        self.emit(RunFinished(self.kernel.now, reason))

    def resume(self) -> float:
        """Begin from the last checkpoint instead of from nothing, with every worker of the plan; when it was."""
        saved = self.membership.restore()
        self.generation = 1  # it has begun together before
        self.kernel.now = self.books.last_use_s = since = float(saved["t"])
        if "apps" in saved:
            self.apps.restore(saved["apps"])
        self.emit(Resumed(since, since, self.books.ledger.done))
        return since
