"""One run in virtual time: nodes, their machines and the network between them, driven by the kernel.

The coordinator (ledger, evaluation, membership) costs no virtual time and its commands take effect at once; a node
that dies is noticed after ``DETECTION_S``. docs/assumptions.md lists what is left out.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from typing import Any

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, SaveCheckpoint, Stop
from littoral.continuum.routes import Routes
from littoral.continuum.signal import Constant
from littoral.events import (
    Event,
    Fetched,
    NodeFinished,
    NodeStarted,
    Resumed,
    RunFinished,
    Sent,
)
from littoral.job import Job
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Strategy
from littoral.worlds.node import Joined, Left, PeerLost, Received, Regrouped
from littoral.worlds.simulated.apps import AppRunner
from littoral.worlds.simulated.books import Books, Keeper, Mathematics
from littoral.worlds.simulated.faults import Faults
from littoral.worlds.simulated.kernel import Kernel, park
from littoral.worlds.simulated.machine import Machine
from littoral.worlds.simulated.network import Flow
from littoral.worlds.simulated.node import SimulatedNode
from littoral.worlds.simulated.post import Parcel, Post
from littoral.worlds.simulated.ring import Ring

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
        self._device_of = dict(plan.device_of)
        self.post = Post(self.kernel, self.routes, self._device_of.__getitem__, self._arrive)
        self.machines = {d.name: Machine(self.kernel, d) for d in job.continuum.devices}
        self.nodes: dict[str, SimulatedNode] = {}
        self.ring = Ring(self)
        self.books = Books(self, mathematics, keeper)
        self._fetching: dict[str, list[Flow]] = {}
        self._events: list[Event] = []
        self._stopped = False
        self.apps = AppRunner(self)
        self._faults = Faults(self)
        batches = {worker.name: worker.batch for worker in plan.workers}
        for name, device in self._device_of.items():
            model = self.books.new_model(name)
            self.nodes[name] = SimulatedNode(self, name, self.machines[device], model, batches.get(name, 0))
        for machine in self.machines.values():
            calm = isinstance(machine.device.load, Constant) and not job.continuum.apps_on(machine.device.name)
            machine.undisturbed = calm and not job.faults

    # -- the world's side ---------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        # A run makes no cycles worth collecting, and looking for them costs a third of the time at 1,000 nodes.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._begin()
            yield from self._until_stopped()
        finally:
            if collecting:
                gc.enable()

    def _until_stopped(self) -> Iterator[Event]:
        while not self._stopped:
            alive = self.kernel.run(until=self.books.last_use_s + self._patience())
            batch, self._events = self._events, []
            yield from batch
            if not alive and not self._stopped:
                self._stop(self._missing() or "stuck: every node waits for another")
        yield from self._events

    def _patience(self) -> float:
        """How long nothing may be learned before a run is given up."""
        return PATIENCE_S if self._missing() else STALL_S

    def _missing(self) -> str:
        """Without whom nothing can go on."""
        for server in self.plan.servers:
            if not self.nodes[server.name].alive:
                return f"{server.name} was lost and did not return"
        return "" if self.members else "no worker is left"

    def emit(self, event: Event) -> None:
        """Tell the supervisor and the journal, when the instant is over."""
        self._events.append(event)
        self.kernel.pause()

    def random(self, stream: str) -> random.Random:
        """A generator of its own for each purpose: more noise here does not shift the dice there."""
        return random.Random(f"{self.seed}/{stream}")

    def _begin(self) -> None:
        if self.books.ledger.done == 0:
            self.books.evaluate()
        self.apps.start()
        self._faults.start()
        for server in self.plan.servers:
            self.start(server.name)
        for worker in self.plan.workers:
            self.start(worker.name, fetch=True)

    # -- programs -----------------------------------------------------------------------------------------------

    def start(self, name: str, fetch: bool = False) -> None:
        """Run a node's program from its beginning, if the node is there to run it."""
        node = self.nodes[name]
        if node.alive:
            node.running = True
            node.spawn(self._life(node, fetch))

    async def _life(self, node: SimulatedNode, fetch: bool) -> None:
        self.emit(NodeStarted(self.kernel.now, node.name))
        if fetch:
            await self._fetch(node, self.plan.worker(node.name).shard)
        is_server = any(server.name == node.name for server in self.plan.servers)
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

    async def _fetch(self, node: SimulatedNode, samples: int) -> None:
        """Get the model and ``samples`` samples from the worker's store, if its data is not there already."""
        store = self.plan.worker(node.name).store
        if store is None:
            return
        size = samples * self.footprint.sample_bytes + self.footprint.vector_bytes
        start, task = self.kernel.now, self.kernel.current
        self._carry(store, node.name, size, lambda: self.kernel.call_soon(task))
        await park()
        self.emit(Fetched(self.kernel.now, node.name, size, start))

    def _carry(self, store: str, node: str, size: int, done: Any) -> None:
        route = self.routes.between(store, self._device_of[node])
        if not route.pipes:
            self.kernel.call_at(self.kernel.now + route.latency_s, lambda _: done())
            return
        flow = self.post.network.start(
            route, size, lambda: self.kernel.call_at(self.kernel.now + route.latency_s, lambda _: done())
        )
        self._fetching.setdefault(node, []).append(flow)

    def withdraw(self, name: str) -> None:
        """A node is gone: nothing it sends, is sent or fetches uses the network any more."""
        self.post.drop(name)
        for flow in self._fetching.pop(name, ()):
            self.post.network.stop(flow)

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
                self._exclude(node, heirs)
            case Admit(node=node, weights=weights):
                self._admit(node, weights)
            case Relaunch(node=node, weights=weights):
                self._relaunch(node, weights)
            case Rebatch(node=node, batch=batch):
                self.nodes[node].batch = batch
            case SaveCheckpoint():
                self.books.save()
            case Stop(reason=reason):
                self._stop(reason)
            case _:
                raise AssertionError(f"unknown command {command}")

    def _exclude(self, gone: str, heirs: dict[str, float]) -> None:
        self.members = tuple(name for name in self.members if name != gone)
        self.books.ledger.release_all(gone)
        got = self.books.ledger.hand_over(gone, heirs)
        self.ring.abort()
        for node in self.nodes.values():
            if node.alive and node.name != gone:
                node.lose(gone)
                node.deliver_soon(Received(gone, Left(gone)))
        for name in sorted(got):
            self._supply(name, got[name])

    def _supply(self, name: str, samples: int) -> None:
        """A node got more work: its data follows in the background, and its program goes on if it had ended."""
        store = self.plan.worker(name).store
        ledger = self.books.ledger
        epochs_left = max(1, self.plan.epochs - ledger.done // ledger.total)
        if samples and store is not None:
            size, start = samples // epochs_left * self.footprint.sample_bytes, self.kernel.now
            self._carry(store, name, size, lambda: self.emit(Fetched(self.kernel.now, name, size, start)))
        if ledger.open(name) and not self.nodes[name].running:
            self.start(name)

    def _admit(self, name: str, weights: dict[str, float]) -> None:
        node = self.nodes[name]
        node.alive = True
        order = [worker.name for worker in self.plan.workers]
        self.members = tuple(sorted({*self.members, name}, key=order.index))
        if self.strategy.replicated:
            self._copy_model(name)
        self.ring.abort()
        got = self.books.ledger.rebalance(weights)
        for other in self.nodes.values():
            if other.alive and other.name != name:
                other.deliver_soon(Received(name, Joined(name)))
        if not node.running:
            self.start(name, fetch=True)
        for heir in sorted(got):
            if heir != name:
                self._supply(heir, 0)

    def _copy_model(self, name: str) -> None:
        """Give a worker that joins the model of another; if nobody has it any more, the checkpoint's."""
        donor = next((m for m in self.members if m != name), None)
        if donor is not None:
            source: Any = self.nodes[donor].model
            target: Any = self.nodes[name].model
            target.restore(source.state())
        else:
            since = float(self.books.restore()["t"])
            self.emit(Resumed(self.kernel.now, since, self.books.ledger.done))

    def _relaunch(self, name: str, weights: dict[str, float]) -> None:
        """A server's memory is gone: everybody goes back to the last checkpoint."""
        self.nodes[name].alive = True
        for node in self.nodes.values():
            node.kill()
            self.post.drop(node.name)
        since = float(self.books.restore()["t"])
        self.books.ledger.hand_over_orphans(weights)  # of whoever has left since the checkpoint
        self.emit(Resumed(self.kernel.now, since, self.books.ledger.done))
        for server in self.plan.servers:
            self.start(server.name)
        for member in self.members:
            self.start(member)

    def _stop(self, reason: str) -> None:
        self.apps.finish()
        self._stopped = True
        for node in self.nodes.values():
            node.kill()
        self.emit(RunFinished(self.kernel.now, reason))

    def resume(self) -> float:
        """Begin from the last checkpoint instead of from nothing, with every worker of the plan; when it was."""
        saved = self.books.restore()
        self.kernel.now = self.books.last_use_s = since = float(saved["t"])
        if "apps" in saved:
            self.apps.restore(saved["apps"])
        if set(saved["members"]) != set(self.members):  # those excluded then have no work of their own now
            self.books.ledger.rebalance({worker.name: float(worker.shard) for worker in self.plan.workers})
        self.emit(Resumed(since, since, self.books.ledger.done))
        return since
