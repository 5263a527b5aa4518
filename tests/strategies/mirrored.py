"""Gaia's servers without a world: channels that keep their order and nothing else, and workers that push integers.

Integers add up exactly in float32, so that after every single message it can be said where each change is: in a copy,
accumulated, waiting at a hub, or on its way. ``Sea.sail`` delivers messages in any order that channels allow, and
checks as it goes.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import torch

from littoral.learning.leases import Lease
from littoral.planning.plan import Plan, Prediction, Server, Worker
from littoral.strategies.gaia import Gaia
from littoral.strategies.gaia_server import GaiaFinish, GaiaParameters, GaiaPush, GaiaRead
from littoral.strategies.mirrors import GROUP, REST, SITE, MirrorBarrier, MirrorClock, MirrorUpdate
from littoral.worlds.node import Joined, Left, Received

LENGTH = 6
NOTHING = Prediction(time_s=0.0, epoch_s=0.0, bytes_sent=0.0, wan_bytes=0.0, cost_usd=0.0)


class Copy:
    """A model whose steps are the sums that were pushed."""

    trained = LENGTH

    def __init__(self) -> None:
        self.vector = torch.arange(-1.0, LENGTH - 1.0)  # one of them is zero
        self.own = torch.zeros(LENGTH)

    def snapshot(self) -> torch.Tensor:
        return self.vector.clone()

    def load(self, vector: torch.Tensor) -> None:
        self.vector = vector.clone()

    def mean(self, parts: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
        return sum((vector for vector, _ in parts), torch.zeros(LENGTH))


class Island:
    """A server's node."""

    generation = 1

    def __init__(self, sea: Sea, name: str) -> None:
        self.sea, self.name, self.plan, self.model = sea, name, sea.plan, Copy()

    @property
    def now(self) -> float:
        return self.sea.steps * 0.01

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(w.name for w in self.plan.workers if w.name in self.sea.alive)

    async def send(self, target: str, message: Any) -> None:
        self.sea.sent(self.name, target, message)

    async def commit(self, leases: list[Any]) -> list[bool]:
        return [True] * len(leases)

    async def release(self, leases: list[Any]) -> None:
        pass

    async def update(self, change: torch.Tensor, samples: float, factor: float) -> None:
        self.model.vector = self.model.vector + change
        self.model.own = self.model.own + change


class Sea:
    """Sites with their workers, and the messages between them."""

    def __init__(self, strategy: Gaia, sites: list[int], seed: int, *, tides: bool) -> None:
        self.strategy, self.dice, self.tides = strategy, random.Random(seed), tides
        workers = tuple(
            Worker(name=f"w-{i}-{j}", device="d", shard=9, batch=3, samples_per_s=30.0, site=f"s{i}")
            for i, count in enumerate(sites) for j in range(count)
        )  # fmt: skip
        servers = tuple(
            Server(name=f"ps-{i}", device="d", start=0, stop=LENGTH, site=f"s{i}") for i in range(len(sites))
        )
        names = [server.name for server in servers]
        rates = {a: {b: self.dice.choice([50.0, 500.0, 1e9]) for b in names if b != a} for a in names}
        self.plan = Plan(
            planner="fair", strategy="gaia", workers=workers, servers=servers, epochs=1, rates=rates, predicted=NOTHING
        )
        self.overlay = strategy.overlay(self.plan)
        self.server_of = {w.name: next(s.name for s in servers if s.site == w.site) for w in workers}
        self.alive = {w.name for w in workers}
        self.left = {w.name: self.dice.randint(0, 6) for w in workers}  # iterations
        self.done: set[str] = set()
        self.steps = 0
        self.channels: dict[tuple[str, str], deque[Any]] = {}
        self.islands = {name: Island(self, name) for name in names}
        self.desks = {name: strategy.desk(self.islands[name]) for name in names}  # type: ignore[arg-type]
        self.told: dict[str, tuple[int, bool]] = dict.fromkeys(names, (0, False))  # by each: its last site clock
        self.woken: set[str] = set()
        self.barred: dict[str, dict[str, set[int]]] = {name: {} for name in names}
        self.heard = {name: self._first_clocks(name) for name in names}
        self.thresholds: dict[int, set[float]] = {}
        self.counts = dict.fromkeys(["updates", "barriers", "reads", "relays"], 0)
        for name in names:
            self._watch_filter(name)
            run(self.desks[name].open())
        for worker in sorted(self.alive):
            self.sent(worker, self.server_of[worker], GaiaRead())

    # -- what happens -------------------------------------------------------------------------------------------

    def sail(self) -> None:
        """Until nothing is on its way."""
        while ways := [way for way, queue in self.channels.items() if queue]:
            self.steps += 1
            if self.tides and self.dice.random() < 0.03:
                self._tide()
            elif self.channels[way := self.dice.choice(ways)]:
                self._deliver(*way, self.channels[way].popleft())
            if self.dice.random() < 0.3:
                self.check_conservation()
                self.check_reads()
        self.check_conservation()
        assert self.done == self.alive  # nobody was left waiting

    def _deliver(self, source: str, target: str, message: Any) -> None:
        if target in self.desks:
            self._note(source, target, message)
            run(self.desks[target].take(Received(source, message)))
        elif self.left[target]:
            self.left[target] -= 1
            change = torch.tensor([float(self.dice.choice([0, 0, 0, -2, 1, 3])) for _ in range(LENGTH)])
            self.sent(target, source, GaiaPush(3, Lease(0, target, ()), change))
        else:
            self.done.add(target)
            self.sent(target, source, GaiaFinish())

    def _tide(self) -> None:
        """A worker dies, returns, or gets more work when it had none left."""
        worker = self.dice.choice(sorted(self.left))
        if worker not in self.alive:
            self.alive.add(worker)
            self._tell(Joined(worker))
        elif worker in self.done and not self.channels[worker, self.server_of[worker]]:
            self.done.discard(worker)
        elif self.dice.random() < 0.5:
            for way in [way for way in self.channels if worker in way]:
                self.channels[way].clear()
            self.alive.discard(worker)
            self.done.discard(worker)
            self._tell(Left(worker))
            return
        else:
            return
        self.left[worker] += self.dice.randint(0, 3)
        self.sent(worker, self.server_of[worker], GaiaRead())

    def _tell(self, news: Any) -> None:
        for desk in self.desks.values():
            run(desk.take(Received(news.node, news)))

    def sent(self, source: str, target: str, message: Any) -> None:
        match message:
            case GaiaParameters():
                self.counts["reads"] += 1
                assert not self.barred[source]  # 7: a read, which is of everything, waits for what is barred
                for name, desk in self.desks.items():  # 5: nobody who works is more than ``ahead`` behind
                    if desk.clocks and name not in self.woken:
                        assert message.clock - desk.mirrors.clock <= self.strategy.ahead
            case MirrorUpdate(scope=scope):
                self.counts["updates"] += 1
                self.counts["relays"] += scope != SITE
            case MirrorBarrier():
                self.counts["barriers"] += 1
        self.channels.setdefault((source, target), deque()).append(message)

    # -- what must hold -----------------------------------------------------------------------------------------

    def _first_clocks(self, name: str) -> dict[tuple[str, str], float]:
        beyond = [(REST, "")] if len(self.overlay.groups) > 1 and not self.overlay.hubs(name) else []
        mates = [(SITE, mate) for mate in self.overlay.mates(name)]
        return dict.fromkeys([*mates, *beyond, *((GROUP, hub) for hub in self.overlay.hubs(name))], 0.0)

    def _note(self, source: str, target: str, message: Any) -> None:
        key = getattr(message, "scope", ""), "" if getattr(message, "scope", "") == REST else source
        match message:
            case MirrorClock(scope=scope, clock=clock, idle=idle):
                if scope == SITE and target == (self.overlay.mates(source) or ("",))[0]:
                    before, rested = self.told[source]
                    assert idle or rested or clock == before + 1  # 5: clocks go one by one
                    assert clock >= before
                    self.told[source] = clock, idle
                heard = self.heard[target][key]
                later = clock if heard == float("inf") else max(clock, heard)
                self.heard[target][key] = float("inf") if idle else later
            case MirrorUpdate(clock=clock):
                heard = self.heard[target][key]
                assert clock > heard or heard == float("inf")  # 6: no update after its clock
                self.barred[target].pop(source, None)
            case MirrorBarrier(vector=elements):
                everything = set(range(LENGTH))
                self.barred[target][source] = everything if elements is None else set(elements.view("int32").tolist())

    def check_reads(self) -> None:
        """7: an element may be read unless it is barred, or the clocks forbid all reads."""
        for name, desk in self.desks.items():
            mirrors = desk.mirrors
            slowest = min(self.heard[name].values(), default=float("inf"))
            barred = set().union(*self.barred[name].values())
            for i in range(LENGTH):
                readable = mirrors.clock - slowest <= self.strategy.ahead and i not in barred
                assert mirrors.readable(i, i + 1) == readable

    def check_conservation(self) -> None:
        """1 and 8: every copy lacks exactly what others accumulated, hubs have not passed on, or is on its way."""
        total = sum((island.model.own for island in self.islands.values()), Copy().vector)
        for name, island in self.islands.items():
            mates, hub = self.overlay.mates(name), next(g[0] for g in self.overlay.groups if name in g)
            lacks = sum((self._kept(mate) + self._under_way(mate, name) for mate in mates), torch.zeros(LENGTH))
            if name != hub:
                lacks = lacks + some(self.desks[hub].mirrors.held.get(REST))
            for other in self.overlay.hubs(hub):
                lacks = lacks + self._under_way(other, hub) + self._kept(other)
                lacks = lacks + some(self.desks[other].mirrors.held.get(GROUP))
                for mate in self.overlay.mates(other):
                    lacks = lacks + self._kept(mate) + self._under_way(mate, other)
            assert torch.equal(island.model.vector + lacks, total)

    def _kept(self, name: str) -> torch.Tensor:
        mirrors = self.desks[name].mirrors
        return some(mirrors.stream.residual) + some(mirrors.fresh)

    def _under_way(self, source: str, target: str) -> torch.Tensor:
        codec, queue = self.desks[source].mirrors.stream.codec, self.channels.get((source, target), ())
        updates = [codec.decode(m.vector, LENGTH) for m in queue if isinstance(m, MirrorUpdate)]
        return sum(updates, torch.zeros(LENGTH))

    def _watch_filter(self, name: str) -> None:
        """2 and 9: what stays behind is insignificant, by the threshold that every site has in that round."""
        mirrors, model = self.desks[name].mirrors, self.islands[name].model
        encode, wake = mirrors.stream.encode, mirrors.wake

        def encoded(change: Any, *, weights: Any, threshold: float) -> Any:
            payload = encode(change, weights=weights, threshold=threshold)
            self.thresholds.setdefault(mirrors.clock, set()).add(threshold)
            size = model.vector.abs().clamp(min=self.strategy.floor)
            assert (mirrors.stream.residual.abs() <= threshold * size * (1 + 1e-6)).all()
            return payload

        async def woken() -> None:
            self.woken.add(name)
            await wake()

        mirrors.stream.encode, mirrors.wake = encoded, woken  # type: ignore[method-assign]


def some(vector: Any) -> torch.Tensor:
    """A vector that may not be there."""
    return torch.zeros(LENGTH) if vector is None else vector


def run(program: Any) -> None:
    """A coroutine that never really waits."""
    try:
        program.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")
