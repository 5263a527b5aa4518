"""Hop: how far workers drift apart, that they never hang, and that without its liberties it is D-PSGD."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, cases, spied

from littoral.errors import InputError
from littoral.learning.learner import Holder
from littoral.learning.task import Recipe
from littoral.planning import wiring
from littoral.planning.topology import Topology, make_topology
from littoral.strategies import hop
from littoral.strategies.gossip import GossipModel
from littoral.strategies.hop import Hop, HopToken, HopUpdate, shares
from littoral.strategies.strategy import make_strategy
from littoral.testing import check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.node import Gradient, Node
from littoral.worlds.processes.launch import Forge

MODES: tuple[dict[str, Any], ...] = (
    {"max_ig": 0},
    {"max_ig": 1},
    {"max_ig": 3, "order": "serial"},
    {"notify_ack": True},
    {"staleness": 2, "max_ig": 0},
    {"staleness": 3, "max_ig": 2},
    {"staleness": 3, "max_ig": 4, "max_jump": 3},
    {"backups": 1, "max_ig": 2},
    {"backups": 3, "max_ig": 3, "spare": False},
    {"backups": 1, "max_ig": 3, "max_jump": 10, "trigger": 1, "order": "serial"},
    {"backups": 2, "max_ig": 5, "max_jump": 4, "missing": "renormalise"},
    {"backups": 1, "staleness": 2, "max_ig": 4, "max_jump": 2},
)


# -- graphs -----------------------------------------------------------------------------------------------------------


def from_moves(count: int, moves: list[list[int]], both_ways: bool) -> Topology:
    """Doubly stochastic: the mean of the identity and of permutations, of which the first connects everyone."""
    round_trip = [0] * count
    for a, b in zip(moves[0], [*moves[0][1:], moves[0][0]], strict=True):
        round_trip[a] = b
    every = [list(range(count)), round_trip, *moves[1:]]
    if both_ways:
        every += [[move.index(i) for i in range(count)] for move in every]
    rows: dict[str, dict[str, float]] = {f"w-{i + 1}": {} for i in range(count)}
    for move in every:
        for i, j in enumerate(move):
            row = rows[f"w-{i + 1}"]
            row[f"w-{j + 1}"] = row.get(f"w-{j + 1}", 0.0) + 1 / len(every)
    return Topology(name="moves", rounds=(rows,))


@st.composite
def wired_cases(draw: Any, least: int = 2, most: int = 6) -> tuple[Case, Topology]:
    """A case and a random strongly connected graph over its workers, directed or not."""
    case = draw(cases(least=least, most=most))
    count = len(case.speeds)
    moves = draw(st.lists(st.permutations(range(count)), min_size=1, max_size=3))
    return case, from_moves(count, moves, draw(st.booleans()))


@contextmanager
def wired(topology: Topology) -> Iterator[None]:
    """Plans get this topology, whatever they ask for."""
    with patch.object(wiring, "make_topology", lambda *_, **__: topology):
        yield


def lengths(topology: Topology) -> dict[str, dict[str, int]]:
    """``found[a][b]`` is the number of hops by which what a sends reaches b."""
    names = list(topology.rounds[0])
    found = {}
    for a in names:
        far, edge = {a: 0}, [a]
        while edge:
            fresh = {b: far[m] + 1 for m in edge for b in topology.receivers(m, 0) if b not in far}
            far.update(fresh)
            edge = list(fresh)
        found[a] = far
    return found


# -- the protocol, looked over its shoulder -------------------------------------------------------------------------


class Watched:
    """Replays a log: every worker's iteration, every queue, every bound, after each act."""

    def __init__(self, log: Log, topology: Topology, strategy: Hop) -> None:
        self.topology, self.hop, self.far = topology, strategy, lengths(topology)
        self.names = list(topology.rounds[0])
        self.at = dict.fromkeys(self.names, 0)
        self.computes = dict.fromkeys(self.names, 0)
        self.given: dict[tuple[str, str], int] = defaultdict(int)  # tokens or acks that the first gave the second
        self.known: dict[tuple[str, str], int] = defaultdict(int)  # the same, as far as they have arrived
        self.queues: dict[str, list[tuple[int, str]]] = {name: [] for name in self.names}
        self.widest = {a: dict.fromkeys(self.names, -math.inf) for a in self.names}
        self.computed: dict[str, set[int]] = {name: set() for name in self.names}
        self.jumps = self.updates = 0
        for act in log.acts:
            if act.kind == "send" and isinstance(act.what, HopToken):
                self._token(act.node, act.peer, act.what.count)
            elif act.kind == "received" and isinstance(act.what, HopToken):
                self.known[act.peer, act.node] += act.what.count
            elif act.kind == "send" and isinstance(act.what, HopUpdate):
                self._update(act.node, act.peer, act.what.round)
            elif act.kind == "compute":
                self._compute(act.node)
            elif act.kind == "update" and strategy.notify_ack:
                self._moved(act.node, self.at[act.node] + 1)

    def bound(self, i: str, j: str) -> float:
        """The table of section 4: the most that i may be ahead of j."""
        data = math.inf if self.hop.backups else (self.hop.staleness + 1) * self.far[j][i]
        if self.hop.notify_ack:
            return min(data, 2 * self.far[i][j])
        return min(data, self.hop.max_ig * self.far[i][j]) if self.hop.max_ig else data

    def _moved(self, node: str, at: int) -> None:
        assert at >= self.at[node]
        self.at[node] = at
        for other in self.names:
            if other != node:
                gap = at - self.at[other]
                assert gap <= self.bound(node, other), f"{node} is {gap} ahead of {other}"
                self.widest[node][other] = max(self.widest[node][other], gap)

    def _token(self, giver: str, taker: str, count: int) -> None:
        assert taker in self.topology.senders(giver, 0)
        self.given[giver, taker] += count
        if not self.hop.notify_ack and self.given[giver, taker] > self.at[giver]:
            self._moved(giver, self.given[giver, taker])
            if count > 1:
                self.jumps += 1
                past = [peer for peer in self.topology.receivers(giver, 0) if self.at[peer] < self.at[giver]]
                assert not past, "somebody may wait for an update that was skipped"

    def _update(self, sender: str, receiver: str, number: int) -> None:
        self.updates += 1
        if self.hop.max_ig == 0 or self.hop.notify_ack:
            self._moved(sender, number)
        assert number == self.at[sender], "an update is of its sender's iteration, and tokens say the same"
        if self.hop.notify_ack:
            assert self.known[receiver, sender] >= number, "sent before the last one was acknowledged"
        elif self.hop.max_ig and self.hop.spare:
            assert self.known[receiver, sender] <= number + self.hop.staleness, "sent what is known to be late"
        queue = self.queues[receiver]
        queue.append((number, sender))
        queue[:] = [entry for entry in queue if entry[0] >= self.at[receiver]]  # older ones are dropped on sight
        near = self.topology.senders(receiver, 0)
        if self.hop.max_ig and not self.hop.notify_ack:
            assert all(tag <= self.at[receiver] + self.hop.max_ig for tag, _ in queue)
            assert len(queue) <= (1 + self.hop.max_ig) * (1 + len(near))
        elif not self.hop.staleness:
            assert len(queue) <= sum(1 + self.far[receiver][peer] for peer in near)

    def _compute(self, node: str) -> None:
        self.computes[node] += 1
        if not self.hop.max_jump:
            assert self.computes[node] - 1 == self.at[node]
        if self.hop.max_ig and not self.hop.notify_ack:
            assert {self.given[node, peer] for peer in self.topology.senders(node, 0)} <= {self.at[node]}
        assert self.at[node] not in self.computed[node]
        self.computed[node].add(self.at[node])


def mode(settings: dict[str, Any], topology: Topology) -> dict[str, Any]:
    """The settings, with no more backups than everyone's neighbours."""
    least = min(len(topology.senders(node, 0)) for node in topology.rounds[0])
    return settings | {"backups": min(settings.get("backups", 0), least)}


@given(where=wired_cases(), settings=st.sampled_from(MODES))
def test_bounds_queues_tokens_and_liveness(where: tuple[Case, Topology], settings: dict[str, Any]) -> None:
    """Every row of the table of bounds, and items 1 to 4, 7 and 8, on any strongly connected graph."""
    case, topology = where
    settings = mode(settings, topology)
    with wired(topology):
        log = spied(case.job("hop", samples=64, **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    Watched(log, topology, Hop(**settings))


@given(
    case=cases(crashes=True), settings=st.sampled_from(MODES),
    topology=st.sampled_from(["ring", "ring-based", "complete", "exponential"]),
)  # fmt: skip
def test_nobody_hangs_and_every_sample_counts_once_whoever_dies(
    case: Case, settings: dict[str, Any], topology: str
) -> None:
    """Item 7, with members that come and go."""
    settings = mode(settings, make_topology(topology, [f"w-{i}" for i in range(len(case.speeds))]))
    log = spied(case.job("hop", topology=topology, **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []


# -- behind a slow worker ---------------------------------------------------------------------------------------------

ONE_WAY = from_moves(8, [list(range(8))], both_ways=False)
TWO_WAYS = from_moves(8, [list(range(8))], both_ways=True)
TIGHT: tuple[dict[str, Any], ...] = (
    {"max_ig": 0},
    {"max_ig": 2},
    {"staleness": 2, "max_ig": 0},
    {"staleness": 1, "max_ig": 3},
    {"backups": 2, "max_ig": 2},
)


def behind(topology: Topology, factor: float = 50.0, epochs: int = 1, **settings: Any) -> Watched:
    """A run whose third worker is that much slower than the others."""
    count = len(topology.rounds[0])
    continuum = small_continuum([200.0 / (factor if i == 2 else 1.0) for i in range(count)], latency_s=0.001)
    task = {"samples": 32 * count, "batch": 8}
    settings = mode(settings, topology)
    job = small_job(strategy="hop", planner="fair", continuum=continuum, epochs=epochs, task=task, **settings)
    with wired(topology):
        log = spied(job, timing_only=True)
    assert log.story.reason == "epochs"
    return Watched(log, topology, Hop(**settings))


@pytest.mark.parametrize("topology", [ONE_WAY, TWO_WAYS], ids=["one way", "two ways"])
@pytest.mark.parametrize("settings", TIGHT, ids=str)
def test_bounds_are_reached(settings: dict[str, Any], topology: Topology) -> None:
    """So that the property above does not hold for want of drift."""
    watched = behind(topology, **settings)
    for node in watched.names:
        if node != "w-3":
            assert watched.widest[node]["w-3"] == watched.bound(node, "w-3")


def test_acknowledgements_hold_workers_closer_than_tokens() -> None:
    """NOTIFY-ACK is as tight as data where there is one way only, and tighter where updates wait for acks both ways.

    (Its bound of 2 per hop is for the time of a step after the ack, which is next to nothing here.)
    """
    one_way, two_ways, free = behind(ONE_WAY, notify_ack=True), behind(TWO_WAYS, notify_ack=True), behind(TWO_WAYS)
    assert [one_way.widest[node]["w-3"] for node in ("w-4", "w-5", "w-7", "w-1", "w-2")] == [1, 2, 4, 2, 1]
    assert [two_ways.widest[node]["w-3"] for node in ("w-4", "w-5", "w-6", "w-7")] == [1, 1, 2, 2]
    assert [free.widest[node]["w-3"] for node in ("w-4", "w-5", "w-6", "w-7")] == [1, 2, 3, 4]


@pytest.mark.parametrize("settings", [{"backups": 1}, {"staleness": 4}])
def test_a_slow_worker_that_skips_holds_nobody_up(settings: dict[str, Any]) -> None:
    """Backup workers alone end at the pace of a constantly slow one; with jumps it keeps up (item 8)."""
    plain, skipping = (behind(TWO_WAYS, 5.0, 6, max_jump=jump, **settings) for jump in (0, 10))
    assert plain.jumps == 0 and skipping.jumps > 10
    assert skipping.at["w-1"] > 2 * plain.at["w-1"]
    assert skipping.computes["w-3"] < skipping.at["w-3"] / 2


def test_a_jump_is_not_so_long_that_senders_wait_for_tokens_meanwhile() -> None:
    """Those who hear the slow one get 6 ahead of it, those it hears only max_ig: a jump to 6 would wait for ever."""
    one_way = from_moves(12, [list(range(12)), [0, 1, 4, 3, 6, 5, 8, 7, 2, 9, 10, 11]], both_ways=False)
    watched = behind(one_way, backups=1, max_ig=2, max_jump=10)
    assert [watched.widest[f"w-{i}"]["w-3"] for i in (9, 5, 4)] == [6, 2, 2]
    assert watched.jumps > 0


def test_what_comes_too_late_is_not_sent() -> None:
    """The slow worker's updates are of no use to neighbours that are known to be past them."""
    spared, sent = behind(TWO_WAYS, backups=2), behind(TWO_WAYS, backups=2, spare=False)
    assert spared.updates < sent.updates
    assert spared.at == sent.at and spared.computes == sent.computes


# -- mathematics ------------------------------------------------------------------------------------------------------


def models_sent(log: Log, kind: type[Any]) -> dict[tuple[str, int], torch.Tensor]:
    """Every worker's model at every iteration."""
    return {(act.node, act.what.round): act.what.vector for act in log.of("send", kind)}


SAME = (({"adapt": "after"}, {"order": "parallel"}), ({"adapt": "before"}, {"order": "serial"}))


@given(
    where=wired_cases(), settings=st.sampled_from(SAME), max_ig=st.sampled_from([0, 1, 4]), complete=st.booleans()
)  # fmt: skip
def test_without_its_liberties_it_is_dpsgd_bit_for_bit(
    where: tuple[Case, Topology], settings: tuple[dict[str, Any], dict[str, Any]], max_ig: int, complete: bool
) -> None:
    """Item 6, whatever the delays: no backups, staleness 0, no jumps; on complete graphs too."""
    case, topology = where
    if complete:
        topology = make_topology("complete", list(topology.rounds[0]))
    with wired(topology):
        log = spied(case.job("dpsgd", epochs=1, samples=24, **settings[0]))
        plain = models_sent(log, GossipModel)
        queued = models_sent(spied(case.job("hop", epochs=1, samples=24, max_ig=max_ig, **settings[1])), HopUpdate)
    common = plain.keys() & queued.keys()
    steps = {(w.name, k) for w in log.story.plan.workers for k in range(math.ceil(w.shard / w.batch))}
    assert len(steps - common) <= (len(log.story.plan.workers) if settings[0]["adapt"] == "before" else 0)
    assert all(torch.equal(plain[key], queued[key]) for key in common)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyMixing(Hop):
    """Hop that begins with models far apart; its steps are patched away."""

    name: ClassVar[str] = "only_mixing"

    async def worker(self, node: Node) -> None:
        me = node.members.index(node.name)
        start = torch.Generator().manual_seed(me)
        node.model.load(torch.randn(len(node.model.vector), generator=start))
        await Hop.worker(self, node)


async def no_step(node: Node, gradient: Gradient, boost: float) -> None:
    if gradient.lease is not None:
        await node.commit([gradient.lease])


@given(where=wired_cases(), order=st.sampled_from(["parallel", "serial"]))
def test_mixing_keeps_the_mean_and_shrinks_disagreement(where: tuple[Case, Topology], order: str) -> None:
    """Item 5: the mean of all models stays, their distance from it shrinks by the norm of W - J in every iteration."""
    case, topology = where
    names = list(topology.rounds[0])
    with wired(topology), patch.object(hop, "step", no_step):
        log = spied(case.job("test_hop:OnlyMixing", epochs=1, samples=24 + 4 * len(names), order=order))
    mixing = torch.tensor([[topology.rounds[0][i].get(j, 0.0) for j in names] for i in names], dtype=torch.float64)
    rho = float(torch.linalg.matrix_norm(mixing - 1 / len(names), 2))
    sent = models_sent(log, HopUpdate)
    whole = [k for k in range(1000) if all((name, k) in sent for name in names)]
    assert len(whole) > 1
    models = [torch.stack([sent[name, k] for name in names]).double() for k in whole]
    apart = [float(torch.linalg.vector_norm(each - each.mean(dim=0))) for each in models]
    assert apart[0] > 1.0
    for before, after in pairwise(models):
        torch.testing.assert_close(after.mean(dim=0), before.mean(dim=0), atol=1e-5, rtol=0)
    for before, after in pairwise(apart):
        assert after <= rho * before + 1e-5 * apart[0]


def test_a_jump_lands_on_the_neighbours_models() -> None:
    """Whoever jumps to iteration k first mixes with its neighbours' updates of k - 1."""
    ring = from_moves(4, [[0, 1, 2, 3]], both_ways=True)
    continuum = small_continuum([200.0, 200.0, 40.0, 200.0], latency_s=0.001)
    settings = {"backups": 1, "max_jump": 3}
    job = small_job(strategy="test_hop:OnlyMixing", planner="fair", continuum=continuum, epochs=1, **settings)
    with wired(ring), patch.object(hop, "step", no_step):
        sent = models_sent(spied(job), HopUpdate)
    rows, near = ring.rounds[0]["w-3"], ("w-2", "w-4")
    mine = sorted(k for name, k in sent if name == "w-3")
    jumps = [(a, b) for a, b in pairwise(mine) if b > a + 1]
    assert jumps
    for before, after in jumps:
        model = sent["w-3", before]
        for number in (before, after - 1):  # the iteration it was in, of which it had heard everything, and the refresh
            model = rows["w-3"] * model + sum(rows[peer] * sent[peer, number] for peer in near)
        torch.testing.assert_close(sent["w-3", after], model)


ROWS = st.dictionaries(st.sampled_from("bcdefg"), st.floats(0.01, 1.0), max_size=6)


@given(
    row=ROWS, own=st.floats(0.01, 1.0), staleness=st.integers(0, 5),
    missing=st.sampled_from(["self", "renormalise"]), data=st.data(),
)  # fmt: skip
def test_reduce_weights_are_shares_of_what_was_heard(
    row: dict[str, float], own: float, staleness: int, missing: str, data: Any
) -> None:
    """Item 9: they sum to 1, the own model always counts, and grow with freshness."""
    total = own + sum(row.values())
    row = {peer: weight / total for peer, weight in (row | {"a": own}).items()}
    number = data.draw(st.integers(0, 50))
    heard = [peer for peer in sorted(row) if peer != "a" and data.draw(st.booleans())]
    ages = {peer: number + data.draw(st.integers(-staleness, 3 if staleness else 0)) for peer in heard}
    found = shares(row, "a", {"a": number} | ages, number - staleness, missing)
    assert set(found) == {"a"} | set(ages)
    assert min(found.values()) > 0
    holder = Holder(torch.zeros(1), Recipe(lr=0.1, batch=1), 1)
    one = holder.mean([(torch.ones(1), weight) for weight in found.values()])
    torch.testing.assert_close(one, torch.ones(1))
    lost = 1 - row["a"] - sum(row[peer] for peer in heard) if missing == "self" else 0.0
    assert found["a"] == pytest.approx((row["a"] + lost) * (staleness + 1))
    for peer, age in ages.items():
        assert found[peer] == pytest.approx(row[peer] * (age - (number - staleness) + 1))
    if not staleness and len(ages) == len(row) - 1:
        assert found == row


def test_what_was_not_heard_biases_the_mean_less_if_its_weight_stays_at_home() -> None:
    """With random latecomers the mean of all models drifts either way, but less far with ``missing: self``."""
    dice = random.Random(1)
    topology = make_topology("ring-based", [f"w-{i}" for i in range(9)])  # an odd number: not regular
    rows = topology.rounds[0]
    squares = dict.fromkeys(("self", "renormalise"), 0.0)
    models = {node: dice.gauss(0.0, 1.0) for node in rows}
    for _ in range(2000):
        heard = {node: set(rows[node]) - {dice.choice(topology.senders(node, 0))} for node in rows}
        for missing in squares:
            moved = 0.0
            for node, row in rows.items():
                found = shares(row, node, dict.fromkeys(heard[node], 0), 0, missing)
                total = sum(found.values())
                moved += sum(weight / total * models[peer] for peer, weight in found.items()) - models[node]
            squares[missing] += moved**2
    assert squares["self"] < 0.7 * squares["renormalise"]


def test_a_jump_makes_the_optimiser_forget() -> None:
    """Momentum belongs to where the model was."""
    holder = Holder(torch.zeros(2), Recipe(lr=0.1, batch=1, momentum=0.9), 2)
    fresh = Holder(torch.zeros(2), Recipe(lr=0.1, batch=1, momentum=0.9), 2)
    gradient = torch.ones(2)
    holder.step(gradient, 1)
    holder.forget()
    before = holder.snapshot()
    holder.step(gradient, 1)
    fresh.step(gradient, 1)
    torch.testing.assert_close(holder.vector - before, fresh.vector)
    with patch("littoral.learning.phantom.PhantomModel.forget") as forget:
        watched = behind(TWO_WAYS, 5.0, backups=1, max_jump=3)
    assert forget.call_count >= watched.jumps > 0


# -- the contract -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, *MODES], ids=str)
def test_it_keeps_the_contract(settings: dict[str, Any]) -> None:
    settings = settings | {"backups": min(2, settings.get("backups", 0))}
    check_strategy("hop", **settings)
    check_strategy("hop", faults=[fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


@pytest.mark.parametrize(
    "settings", [{}, {"backups": 1, "max_jump": 4}, {"staleness": 2}, {"notify_ack": True}], ids=str
)
def test_it_keeps_the_contract_with_real_processes(settings: dict[str, Any], forge: Forge) -> None:
    check_strategy("hop", run=lambda job: live(job, launcher=forge), **settings)


@pytest.mark.parametrize("settings", [{}, {"backups": 1, "staleness": 5}], ids=str)
def test_it_learns_digits(settings: dict[str, Any]) -> None:
    job = small_job(workers=4, strategy="hop", epochs=6, **settings)
    assert simulate(replace(job, task="littoral.tasks.digits", task_options={})).accuracies[-1] > 0.94


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"order": "sideways"}, "order"),
    ({"missing": "all"}, "missing"),
    ({"boost": 0.5}, "boost"),
    ({"max_ig": -1}, "max_ig"),
    ({"backups": 0.5}, "backups"),
    ({"staleness": None}, "staleness"),
    ({"trigger": 0}, "trigger"),
    ({"degree": 0}, "degree"),
    ({"spare": "yes"}, "spare"),
    ({"notify_ack": 1}, "notify_ack"),
    ({"backups": 1, "max_ig": 0}, "without bound"),
    ({"notify_ack": True, "staleness": 2}, "notify_ack waits"),
    ({"max_jump": 3}, "max_jump needs"),
    ({"max_jump": 3, "staleness": 3, "max_ig": 0}, "max_jump needs"),
    ({"max_jump": 3, "backups": 1, "max_ig": 2, "trigger": 3}, "never skips"),
    ({"max_jump": 3, "staleness": 1, "trigger": 3}, "never skips"),
)


@pytest.mark.parametrize(("settings", "what"), BAD, ids=str)
def test_bad_settings_are_refused_with_a_remedy(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what) as refusal:
        make_strategy("hop", settings)
    assert refusal.value.remedy


def test_bad_topologies_are_refused_before_the_run() -> None:
    with pytest.raises(InputError, match="3 backups, but w-1 hears only 2"):
        simulate(small_job(strategy="hop", workers=4, backups=3, topology="ring"))
    with pytest.raises(InputError, match="changes from round to round"):
        simulate(small_job(strategy="hop", workers=4, topology="one-peer-exponential"))
    swap = {"w-1": {"w-2": 1.0}, "w-2": {"w-1": 1.0}}
    with wired(Topology(name="swap", rounds=(swap,))), pytest.raises(InputError, match="keep nothing"):
        simulate(small_job(strategy="hop", workers=2))
