"""Gaia's promises: message by message without a world (``mirrored``), and in whole runs."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mirrored import Sea
from spy import Case, Log, cases, spied

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Site
from littoral.continuum.link import HEADER_BYTES, Link
from littoral.continuum.signal import Constant
from littoral.errors import InputError
from littoral.events import Checkpointed, Resumed, Sent
from littoral.job import Fault, Job
from littoral.learning import codecs
from littoral.strategies.gaia import Gaia
from littoral.strategies.gaia_server import GaiaParameters
from littoral.strategies.mirrors import SITE, MirrorBarrier, MirrorClock, MirrorUpdate
from littoral.strategies.overlay import joined
from littoral.testing import Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

sys.path.append(str(Path(__file__).parents[1] / "worlds"))
from seaside import KilledKeeper

MIRRORED = (MirrorUpdate, MirrorClock, MirrorBarrier)


def coasts(*workers: int, speed: float = 100.0, wan: float = 1e6, latency_s: float = 0.01) -> Continuum:
    """Sites s0, s1 ... with so many workers each, equally far from each other, and a hub at s0."""
    plain = small_continuum([speed] * sum(workers), latency_s=0.001)
    names = [f"s{i}" for i in range(len(workers))]
    where = [name for name, count in zip(names, workers, strict=True) for _ in range(count)]
    devices = tuple(replace(d, site=site) for d, site in zip(plain.devices, [*where, "s0"], strict=True))
    lans = [replace(plain.links[0], a=name, b=name) for name in names]
    rate = Constant(wan)
    wans = [
        Link(a=a, b=b, forward=rate, backward=rate, latency_s=latency_s)
        for i, a in enumerate(names) for b in names[i + 1 :]
    ]  # fmt: skip
    sites = tuple(Site(name=name, tier="cloud") for name in names)
    return replace(plain, sites=sites, devices=devices, links=(*lans, *wans))


def gaia(continuum: Continuum, *, epochs: int = 2, task: dict[str, Any] | None = None, **settings: Any) -> Job:
    return small_job(strategy="gaia", planner="fair", continuum=continuum, epochs=epochs, task=task, **settings)


def copies(story: Story) -> list[torch.Tensor]:
    assert story.session is not None
    return [story.session.nodes[server.name].model.vector for server in story.plan.servers]


# -- message by message -------------------------------------------------------------------------------------------


@given(
    sites=st.lists(st.integers(0, 2), min_size=1, max_size=5).filter(any), seed=st.integers(0, 2**32),
    threshold=st.sampled_from([0.0, 0.3, 2.5, 1e30]), decay=st.sampled_from(["sqrt", "none"]),
    ahead=st.integers(0, 2), bound=st.sampled_from([0, 0, 2]), hubs=st.sampled_from([0, 0, 2, 3]), tides=st.booleans(),
)  # fmt: skip
def test_messages(sites: list[int], seed: int, tides: bool, threshold: float, **settings: Any) -> None:
    """Invariants 1, 2 and 5 to 8 at any moment (see ``mirrored``), 3, 4 and 9 in the end; and nobody hangs.

    In whatever order messages come, with workers that finish, die, return and get more work.
    """
    sea = Sea(Gaia(threshold=threshold, **settings), sites, seed, tides=tides)
    rounds = [max([sea.left[w] for w in sea.left if sea.server_of[w] == name], default=0) for name in sea.desks]
    sea.sail()
    if not tides and not settings["bound"]:
        assert [desk.mirrors.clock for desk in sea.desks.values()] == rounds  # 5: a clock per round
    vectors = [island.model.vector for island in sea.islands.values()]
    if threshold == 0.0:
        assert all(torch.equal(vectors[0], vector) for vector in vectors)  # 3: everything arrived, once
    if threshold == 1e30:
        assert not sea.counts["updates"]  # 4: nothing but clocks
    assert all(len(values) == 1 for values in sea.thresholds.values())  # 9: one threshold per round


@pytest.mark.parametrize("seed", range(20))
def test_what_a_worker_did_ahead_of_one_that_finished_is_not_forgotten(seed: int) -> None:
    sea = Sea(Gaia(threshold=0.0, bound=2), [2, 1], seed, tides=False)
    sea.left.update({"w-0-0": 2, "w-0-1": 0, "w-1-0": 1})
    sea.sail()
    one, two = (island.model.vector for island in sea.islands.values())
    assert torch.equal(one, two)


# -- whole runs ---------------------------------------------------------------------------------------------------


@given(
    case=cases(crashes=True), ahead=st.integers(0, 2), bound=st.sampled_from([0, 2]),
    density=st.sampled_from([0.05, 0.5]), server_dies_at=st.sampled_from([None, 0.5, 2.0]),
)  # fmt: skip
def test_runs(case: Case, server_dies_at: float | None, **settings: Any) -> None:
    """Every sample counts once, whoever dies; sites talk through servers only; invariants 5 to 7 on real links."""
    if server_dies_at is not None:
        crash = Fault(at_s=server_dies_at, kind="crash", node="ps-1", seconds=0.5)
        case = replace(case, faults=(*case.faults, crash))
    log = spied(case.job("gaia", **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    check_ways(log)
    check_clocks(log)
    check_barriers(log)


def check_ways(log: Log) -> None:
    """A worker talks to its own site's server, and nobody else across sites."""
    plan = log.story.plan
    site = {node.name: node.site for node in (*plan.workers, *plan.servers)}
    servers = {server.name for server in plan.servers}
    for act in log.of("send"):
        far = site[act.node] != site[act.peer]
        assert far == (isinstance(act.what, MIRRORED) or type(act.what).__name__.startswith("Group"))
        assert not far or {act.node, act.peer} <= servers


def check_clocks(log: Log) -> None:
    """5 and 6: a peer's clocks go one by one unless it rested, and no update comes after its clock."""
    last: dict[Any, MirrorClock] = {}
    for act in log.of("received"):
        way = act.node, act.peer, act.generation
        before = last.get(way, MirrorClock(SITE, 0, False))
        if isinstance(act.what, MirrorClock):
            assert act.what.clock == before.clock + 1 or act.what.idle or before.idle
            last[way] = act.what
        elif isinstance(act.what, MirrorUpdate):
            assert act.what.clock > before.clock


def check_barriers(log: Log) -> None:
    """7: between a barrier and its update nobody reads."""
    barred: dict[str, set[str]] = {}
    generation = 1
    for act in log.acts:
        if act.generation != generation:
            generation, barred = act.generation, {}
        if act.kind == "received" and isinstance(act.what, MirrorBarrier):
            barred.setdefault(act.node, set()).add(act.peer)
        elif act.kind == "received" and isinstance(act.what, MirrorUpdate):
            barred.get(act.node, set()).discard(act.peer)
        elif act.kind == "send" and isinstance(act.what, GaiaParameters):
            assert not barred.get(act.node)


def test_what_will_be_late_is_announced_and_waited_for() -> None:
    """Only where reads may be ahead: in lock-step they wait for the clock, and a barrier would say nothing new."""
    slow = coasts(1, 1, wan=2e3)
    log = spied(gaia(slow, ahead=1, threshold=0.0), timing_only=True)
    assert log.of("received", MirrorBarrier)
    check_barriers(log)
    for settings, continuum in [({"ahead": 0}, slow), ({"ahead": 1}, coasts(1, 1))]:
        assert not spied(gaia(continuum, threshold=0.0, **settings), timing_only=True).of("send", MirrorBarrier)


# -- what it is in the limit --------------------------------------------------------------------------------------

FOUR = {"samples": 256, "batch": 8}


@pytest.mark.parametrize(
    ("workers", "settings", "recipe"),
    [
        ((2, 2), {}, {}),
        ((3, 1), {}, {"momentum": 0.9, "weight_decay": 0.01}),
        ((1, 1, 1, 1), {}, {"momentum": 0.9, "nesterov": True}),
        ((1, 1, 1, 1), {"hubs": 2}, {"momentum": 0.9}),
        ((1, 1, 1, 1), {"groups": [["s3", "s0"], ["s1"]]}, {}),
    ],
)
def test_with_threshold_zero_it_is_synchronous(workers: Any, settings: Any, recipe: dict[str, Any]) -> None:
    """Invariant 3: what sites read after a round is the model of all-reduce after as many steps."""
    job = replace(gaia(coasts(*workers), task=FOUR, threshold=0.0, **settings), recipe=recipe)
    check_synchronous(job, atol=1e-5)


def test_carried_statistics_are_shared_out_too() -> None:
    """Batch norms' statistics, which no learning rate scales, move as in a synchronous run, not once per site."""
    task = {"model": "resnet8", "shape": [1, 8, 8], "features": None, "width": 0.25} | FOUR
    check_synchronous(gaia(coasts(1, 1, 1, 1), task=task, threshold=0.0), atol=1e-4, carried=True)


def check_synchronous(job: Job, atol: float, carried: bool = False) -> None:
    """Of two epochs, the reads after the first against all-reduce's model after one."""
    log = spied(job)
    plan = replace(log.story.plan, strategy="allreduce", parameters={}, servers=(), epochs=1)
    session = simulate(replace(job, strategy="allreduce", parameters={}, epochs=1), plan=plan).session
    assert session is not None
    model: Any = session.nodes[plan.workers[0].name].model
    assert (model.trained < len(model.vector)) == carried
    steps = plan.workers[0].shard // plan.workers[0].batch
    reads = [act.what.vector for act in log.of("received", GaiaParameters) if act.what.clock == steps]
    assert len(reads) == len(plan.workers)
    for read in reads:
        torch.testing.assert_close(read, model.vector, atol=atol, rtol=0)


def test_with_a_huge_threshold_sites_are_alone() -> None:
    """Invariant 4: what the others do, here at another pace, is not noticed; only clocks cross."""
    one = simulate(gaia(coasts(1, 2), threshold=1e30))
    other = coasts(1, 2)
    slow = replace(other, devices=(other.devices[0], *coasts(1, 2, speed=10.0).devices[1:]))
    two = simulate(gaia(slow, threshold=1e30))
    assert two.time_s > 2 * one.time_s
    assert torch.equal(copies(one)[0], copies(two)[0])
    assert not torch.equal(copies(one)[0], copies(one)[1])
    assert {event.message for event in one.of(Sent) if event.wide_area} == {"MirrorClock"}


# -- sizes, groups, parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "density"), [({}, 0.05), ({"density": 0.2}, 0.2), ({"threshold": 0.0}, 1.0)])
def test_without_mathematics_updates_weigh_what_the_density_says(settings: Any, density: float) -> None:
    story = simulate(gaia(coasts(1, 1), **settings), timing_only=True)
    length = len(copies(story)[0])
    sizes = {event.size for event in story.of(Sent) if event.message == "MirrorUpdate"}
    assert sizes == {HEADER_BYTES + codecs.HEADER_BYTES + min(4 * length, 8 * math.ceil(density * length))}


def test_groups_are_joined_by_fast_links_and_led_by_who_reaches_the_others_best() -> None:
    east, west = ["a", "b", "c"], ["x", "y"]
    far = {frozenset("ax"): 3.0, frozenset("bx"): 5.0, frozenset("by"): 4.0}
    rates = {
        p: {q: 100.0 if (p in east) == (q in east) else far.get(frozenset((p, q)), 1.0) for q in east + west if q != p}
        for p in east + west
    }
    rates["a"]["y"] = rates["y"]["a"] = 2.0
    assert joined(east + west, rates, 2).groups == (("b", "a", "c"), ("x", "y"))
    flat = joined(east + west, rates, 1)
    assert flat.hubs("a") == () and set(flat.mates("a")) == {"b", "c", "x", "y"}


def test_groups_may_be_given_and_who_is_in_none_is_alone() -> None:
    story = simulate(gaia(coasts(1, 1, 1, 1), groups=[["s2", "s0", "nowhere"]]), timing_only=True)
    assert Gaia(groups=[["s2", "s0", "nowhere"]]).overlay(story.plan).groups == (("ps-3", "ps-1"), ("ps-2",), ("ps-4",))
    ways = {(event.source, event.target) for event in story.of(Sent) if event.message == "MirrorUpdate"}
    hubs = {(a, b) for a in ("ps-2", "ps-3", "ps-4") for b in ("ps-2", "ps-3", "ps-4") if a != b}
    assert ways == hubs | {("ps-1", "ps-3"), ("ps-3", "ps-1")}


def test_thresholds_fall_with_the_root_of_the_round() -> None:
    assert [Gaia(decay="sqrt").threshold_of(t) for t in (1, 4, 100)] == [0.01, 0.005, 0.001]
    assert Gaia().threshold_of(100) == 0.01


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": -0.1}, {"threshold": float("inf")}, {"decay": "lr"}, {"floor": -1.0}, {"ahead": -1},
        {"bound": 1.5}, {"hubs": -2}, {"density": 0.0}, {"groups": "s0"}, {"groups": [[]]}, {"groups": [["a"], ["a"]]},
        {"groups": [[1]]}, {"groups": [["a"]], "hubs": 2},
    ],
)  # fmt: skip
def test_bad_parameters_are_answered_with_a_remedy(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refusal:
        Gaia(**settings)
    assert refusal.value.remedy


# -- members, servers, worlds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"ahead": 1, "bound": 1}, {"hubs": 2}])
def test_contract(settings: dict[str, Any]) -> None:
    for faults in ([], [fail_at("w-2", 0.6, back_after_s=1.5)], [fail_at("ps-2", 0.6, back_after_s=0.3)]):
        check_strategy("gaia", faults, continuum=coasts(2, 1, 1), **settings)


def test_a_site_without_workers_holds_up_nobody_and_is_heard_again_when_they_return() -> None:
    job = gaia(coasts(1, 1, 1), epochs=20)
    story = simulate(replace(job, faults=(fail_at("w-2", 1.0, back_after_s=8.0),)), timing_only=True)
    assert story.reason == "epochs" and story.contradictions() == []
    updates = [event.t for event in story.of(Sent) if event.message == "MirrorUpdate" and event.source == "ps-2"]
    assert any(t < 1.0 for t in updates) and any(t > 9.0 for t in updates)
    others = [event.t for event in story.of(Sent) if event.message == "MirrorUpdate" and event.source == "ps-1"]
    assert sum(5.0 < t < 9.0 for t in others) > 10


def test_after_a_rollback_copies_have_common_ground() -> None:
    """What was accumulated is in no checkpoint: everyone takes the mean of the copies, bit for bit the same."""
    job = gaia(coasts(1, 1, 1), epochs=4, threshold=1e30)
    log = spied(replace(job, faults=(fail_at("ps-2", 1.3, back_after_s=0.2),)))
    assert log.story.of(Checkpointed)[0].t < log.story.of(Resumed)[0].t
    first: dict[int, dict[str, Any]] = {}
    for act in log.of("send", GaiaParameters):
        first.setdefault(act.generation, {}).setdefault(act.node, act.what.vector)
    assert set(first) == {1, 2} and len(first[2]) == 3
    one, *others = first[2].values()
    assert all(torch.equal(one, other) for other in others)
    assert not torch.equal(one, next(iter(first[1].values())))
    assert log.story.contradictions() == []


def test_a_resumed_run_finds_common_ground_too() -> None:
    job, killed = gaia(coasts(1, 1), epochs=4, threshold=0.0), KilledKeeper(saves=1)
    simulate(job, keeper=killed)
    saved = killed.load()
    assert saved is not None
    saved[0]["ps-2/vector"].add_(0.5)  # as if much had been accumulated
    resumed = simulate(job, keeper=killed, resume=True)
    one, two = copies(resumed)
    torch.testing.assert_close(one, two, atol=0.05, rtol=0)  # but for the last round, which is under way


def test_it_learns_as_much_as_synchronous_training() -> None:
    accuracies = []
    for strategy in ("allreduce", "gaia"):
        job = replace(gaia(coasts(1, 1, 1, 1), epochs=6), strategy=strategy)
        accuracies.append(
            simulate(replace(job, task="littoral.tasks.digits", task_options={}, recipe={})).accuracies[-1]
        )
    assert accuracies[1] > accuracies[0] - 0.02 and accuracies[1] > 0.93


def test_with_real_processes(forge: Forge) -> None:
    slow = coasts(2, 1, wan=500.0)  # or so the plan says: barriers are announced, though nothing is late
    story = check_strategy("gaia", run=lambda job: live(job, launcher=forge), continuum=slow, ahead=1)
    crossed = {event.message for event in story.of(Sent) if event.wide_area}
    assert crossed == {"MirrorUpdate", "MirrorClock", "MirrorBarrier"}


def test_a_server_may_die_for_real(forge: Forge) -> None:
    job = replace(gaia(coasts(1, 1), epochs=6, task={"samples": 600}), faults=(fail_at("ps-2", 0.5),))
    story = live(job, launcher=forge)
    assert story.reason == "epochs" and story.contradictions() == []
    assert story.of(Resumed) and any(event.message == "GroupShare" for event in story.of(Sent))
    assert story.accuracies[-1] > 0.9
