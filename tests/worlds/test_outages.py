"""Whole parts of a simulated run that go away: stores, the coordinator, and everybody at once under ``deepedge``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from seaside import whole

from littoral.commands import Admit, Restart
from littoral.continuum.app import Store
from littoral.events import (
    Checkpointed,
    Computed,
    EpochFinished,
    Fetched,
    NodeLost,
    NodeReturned,
    NodeStarted,
    Resumed,
    Used,
)
from littoral.job import Fault, Job
from littoral.strikes import Strikes
from littoral.supervisor import NOBODY
from littoral.testing import MemoryKeeper, simulate, small_continuum, small_job

INF = float("inf")
MODES = [("allreduce", {}), ("parameter_server", {"mode": "bsp"}), ("parameter_server", {"mode": "asp"})]


def crash(node: str, at_s: float, seconds: float = INF) -> Fault:
    return Fault(at_s=at_s, kind="crash", node=node, seconds=seconds)


def pause(node: str, at_s: float, seconds: float) -> Fault:
    return Fault(at_s=at_s, kind="pause", node=node, seconds=seconds)


def deepedge(faults: list[Fault], **settings: object) -> Job:
    return replace(small_job(faults=faults, epochs=12, **settings), on_failure="deepedge")  # type: ignore[arg-type]


# -- everybody at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_worker_that_comes_back_at_once_starts_with_the_others(strategy: str, parameters: dict[str, object]) -> None:
    """Killed at 0.7 s, noticed 1.5 s later, back after 2.1 s, all launched anew 2 s after the loss was noticed."""
    story = simulate(deepedge([crash("w-2", 0.7, 0.1)], strategy=strategy, **parameters))
    assert [event.t for event in story.of(NodeLost)] == pytest.approx([2.2])
    assert [event.t for event in story.of(NodeReturned)] == pytest.approx([2.8])
    assert [event.t for event in story.of(Resumed)] == pytest.approx([4.2])
    again = [event.node for event in story.of(NodeStarted) if event.t > 4.0]
    assert [name for name in again if name != "ps-1"] == ["w-1", "w-2", "w-3"]
    assert not any(2.2 < event.t < 4.2 for event in story.of(Computed) + story.of(Used))
    assert story.strikes.count("w-2") == 1
    assert whole(story)


def test_everybody_goes_back_to_the_last_checkpoint() -> None:
    calm = simulate(small_job(epochs=12), timing_only=True)
    story = simulate(deepedge([crash("w-2", 4.0)]))
    resumed = story.of(Resumed)[0]
    assert resumed.t == pytest.approx(4.0 + 1.5 + 2.0)
    assert resumed.since == [event.t for event in calm.of(Checkpointed) if event.t < 4.0][-1]
    assert resumed.samples == 240 * len([event for event in calm.of(EpochFinished) if event.t < 4.0])
    assert story.session.members == ("w-1", "w-3")
    vectors = [story.session.nodes[name].model.vector for name in story.session.members]
    assert (vectors[0] == vectors[1]).all()
    assert whole(story)


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_worker_that_comes_back_late_joins_without_a_rollback(strategy: str, parameters: dict[str, object]) -> None:
    story = simulate(deepedge([crash("w-2", 0.7, 5.0)], strategy=strategy, **parameters))
    assert len(story.of(Resumed)) == 1
    assert any(event.node == "w-2" and event.start > 7.7 for event in story.of(Computed))
    assert [type(command) for command in story.commands if isinstance(command, Restart | Admit)] == [Restart, Admit]
    assert whole(story)


def test_three_strikes_and_a_worker_is_out() -> None:
    faults = [crash("w-2", at, 0.1) for at in (0.5, 5.5, 10.5)]
    story = simulate(deepedge(faults))
    assert [event.node for event in story.of(NodeReturned)] == ["w-2"] * 3
    assert not any(event.node == "w-2" and event.start > 12.0 for event in story.of(Computed))
    assert story.strikes.excluded("w-2")
    assert whole(story)


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_who_is_out_does_not_even_start_in_the_next_run(strategy: str, parameters: dict[str, object]) -> None:
    strikes = Strikes().begin_run().struck("w-2").struck("w-2").struck("w-2")
    job = replace(small_job(strategy=strategy, **parameters), on_failure="deepedge")
    story = simulate(job, strikes=strikes.begin_run(), timing_only=True)
    assert {event.node for event in story.of(NodeStarted)} - {"ps-1"} == {"w-1", "w-3"}
    assert whole(story)
    again = simulate(job, strikes=strikes.begin_run().begin_run().begin_run().begin_run(), timing_only=True)
    assert "w-2" in {event.node for event in again.of(NodeStarted)}
    assert again.strikes.count("w-2") == 1  # a run without a loss took one of the two away


def test_a_run_of_nobody_ends_before_it_begins() -> None:
    strikes = Strikes().begin_run()
    for _ in range(3):
        strikes = strikes.struck("w-1").struck("w-2").struck("w-3")
    story = simulate(replace(small_job(), on_failure="deepedge"), strikes=strikes.begin_run(), timing_only=True)
    assert (story.reason, story.time_s, story.of(NodeStarted)) == (NOBODY, 0.0, [])


def test_everybody_lost_is_waited_for() -> None:
    for strategy, parameters in MODES:
        faults = [crash(f"w-{i}", 1.5, 2.0) for i in (1, 2, 3)]
        assert whole(simulate(deepedge(faults, strategy=strategy, **parameters)))


@pytest.mark.parametrize("seconds", [INF, 3.0])
def test_a_server_takes_everybody_with_it(seconds: float) -> None:
    story = simulate(deepedge([crash("ps-1", 2.0, seconds)], strategy="parameter_server", mode="bsp"))
    assert story.strikes.count("ps-1") == 1
    assert {event.node for event in story.of(NodeStarted) if event.t > 5.0} == {"ps-1", "w-1", "w-2", "w-3"}
    assert whole(story)


# -- stores -----------------------------------------------------------------------------------------------------

RATE = 1e4


def with_store(faults: list[Fault], workers: int = 1, **settings: object) -> Job:
    """A hub whose port does 1e4 bytes/s holds the data."""
    continuum = small_continuum([100.0] * workers, bandwidth=RATE, latency_s=0.0)
    store = Store(name="disk", site="lab", device="hub")
    return small_job(continuum=replace(continuum, stores=(store,)), faults=faults, **settings)  # type: ignore[arg-type]


def fetched(job: Job) -> list[Fetched]:
    story = simulate(job, timing_only=True)
    assert whole(story)
    return story.of(Fetched)


def data_s(share: float = 1.0) -> float:
    footprint = simulate(small_job(), timing_only=True).session.footprint
    return float((share * 240 * footprint.sample_bytes + footprint.vector_bytes) / RATE)


@pytest.mark.parametrize("target", ["disk", "hub"])
def test_a_store_that_returns_sends_what_is_missing(target: str) -> None:
    """Away from 0.1 s for 1 s, and 2 s to start: three seconds later, and not a byte more."""
    (calm,), (late,) = fetched(with_store([])), fetched(with_store([crash(target, 0.1, 1.0)]))
    assert calm.t == pytest.approx(data_s())
    assert late.t == pytest.approx(calm.t + 3.0)
    assert late.size == calm.size


def test_a_paused_store_goes_on_at_once() -> None:
    assert fetched(with_store([pause("disk", 0.1, 1.0)]))[0].t == pytest.approx(data_s() + 1.0)


def test_outages_of_a_store_overlap() -> None:
    faults = [pause("disk", 0.1, 5.0), crash("disk", 0.2, 1.0), crash("disk", 4.0, 0.1)]
    assert fetched(with_store(faults))[0].t == pytest.approx(data_s() + 6.0)  # from 0.1 s to 4.0 + 0.1 + 2.0 s


def test_a_worker_keeps_what_it_has_fetched() -> None:
    """Killed half way for 0.5 s and 2 s to start: it goes on where it was, and fetches nothing again later."""
    job = with_store([crash("w-1", 0.2, 0.5), crash("w-1", 5.0, 0.5)], epochs=8)
    (only,) = fetched(job)
    assert only.t == pytest.approx(data_s() + 2.5)


def test_a_store_that_nobody_needs_any_more_may_stay_away() -> None:
    assert whole(simulate(with_store([crash("disk", 2.0)], workers=2), timing_only=True))


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
@pytest.mark.parametrize("target", ["disk", "hub"])
def test_data_that_never_comes_ends_the_run(strategy: str, parameters: dict[str, object], target: str) -> None:
    job = replace(with_store([crash(target, 0.1)], 2, strategy=strategy, **parameters), servers=("w-1",))
    if strategy == "parameter_server":
        job = replace(job, workers=("w-2",))
    story = simulate(job, timing_only=True)
    first = story.plan.workers[0].name
    assert story.reason == f"disk was lost and did not return, and {first} needs its data"


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
@pytest.mark.parametrize("seconds", [5.0, INF])
def test_samples_that_moved_are_used_when_their_store_is_back(
    strategy: str, parameters: dict[str, object], seconds: float
) -> None:
    """Both have their data when the store goes; then one worker goes too, and the other needs what that one had."""
    faults = [crash("disk", 1.5, seconds), crash("w-2", 2.0)]
    story = simulate(with_store(faults, workers=2, epochs=8, strategy=strategy, **parameters), timing_only=True)
    inherited = [
        used for used in story.of(Used) for _, origin, *_ in used.spans if (used.node, origin) == ("w-1", "w-2")
    ]
    if seconds == INF:
        assert inherited == []
        assert story.reason == "disk was lost and did not return, and w-1 needs its data"
    else:
        assert min(used.t for used in inherited) > 1.5 + seconds + 2.0  # a process takes two seconds to start
        assert whole(story)


def test_whoever_inherits_a_sample_fetches_its_block() -> None:
    """A shard this small is a single block. It is fetched once, not again for every step or epoch."""
    first, second, more = fetched(with_store([crash("w-2", 2.0)], workers=2, epochs=8))
    sample_bytes = simulate(small_job(), timing_only=True).session.footprint.sample_bytes
    assert {first.node, second.node} == {"w-1", "w-2"}
    assert (more.node, more.size) == ("w-1", 120 * sample_bytes)
    assert more.t - more.start == pytest.approx(more.size / RATE)


# -- the coordinator --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
@pytest.mark.parametrize(("seconds", "away_s"), [(INF, 2.0), (3.0, 5.0)])
def test_a_killed_coordinator_resumes_the_run(
    strategy: str, parameters: dict[str, object], seconds: float, away_s: float
) -> None:
    job = small_job(strategy=strategy, epochs=6, faults=[crash("coordinator", 3.0, seconds)], **parameters)
    story = simulate(job)
    (resumed,) = story.of(Resumed)
    assert resumed.t == pytest.approx(3.0 + away_s)
    assert resumed.since == [event.t for event in story.of(Checkpointed) if event.t < 3.0][-1]
    acted = story.of(Computed) + story.of(Used) + story.of(Checkpointed)
    assert not any(3.0 < event.t < resumed.t for event in acted)
    assert not any(event.start < 3.0 < event.t for event in story.of(Computed))
    assert whole(story)


def test_nobody_is_missed_while_the_coordinator_is_away() -> None:
    faults = [crash("coordinator", 2.0, 4.0), crash("w-2", 3.0), crash("w-3", 3.0, 1.0)]
    story = simulate(small_job(epochs=8, faults=faults), timing_only=True)
    back = story.of(Resumed)[0].t
    assert back == pytest.approx(8.0)
    lost = {event.node: event.t for event in story.of(NodeLost)}
    assert lost == pytest.approx({"w-2": back + 1.5, "w-3": back})  # the one is silent, the other asks to join
    assert [(event.node, event.t) for event in story.of(NodeReturned)] == [("w-3", back)]
    assert whole(story)


def test_a_coordinator_killed_while_it_starts_again_starts_later() -> None:
    faults = [crash("coordinator", 2.0), crash("coordinator", 3.0, 1.0), pause("coordinator", 5.9, 1.0)]
    story = simulate(small_job(epochs=4, faults=faults), timing_only=True)
    assert [event.t for event in story.of(Resumed)] == pytest.approx([6.9])
    assert whole(story)


def test_while_the_coordinator_is_frozen_nodes_go_on_and_nothing_is_decided() -> None:
    faults = [pause("coordinator", 0.5, 4.0), crash("w-2", 2.0)]
    job = small_job(strategy="parameter_server", mode="asp", epochs=8, faults=faults)
    story = simulate(job, timing_only=True)
    frozen = [event for event in story.of(Used) if 0.5 < event.t < 4.5]
    assert len(frozen) > 10
    assert not any(0.5 < event.t < 4.5 for event in story.of(Checkpointed))
    assert [event.t for event in story.of(NodeLost)] == pytest.approx([4.5 + 1.5])
    assert story.of(Resumed) == []
    assert whole(story)


def test_what_a_frozen_coordinator_had_not_heard_dies_with_it() -> None:
    """All work is done at about 2.6 s, but nobody took note of it: it has to be done again."""
    calm = simulate(small_job(), timing_only=True)
    faults = [pause("coordinator", calm.time_s / 2 + 0.2, 60.0), crash("coordinator", calm.time_s + 5.0)]
    story = simulate(small_job(faults=faults), timing_only=True)
    assert [event.samples for event in story.of(Resumed)] == [240]
    assert whole(story)


def test_a_coordinator_that_never_answers_again_ends_the_run() -> None:
    story = simulate(small_job(faults=[pause("coordinator", 1.0, INF)]), timing_only=True)
    assert story.reason == "the coordinator does not answer"


def test_the_end_is_heard_even_if_the_coordinator_dies_that_moment() -> None:
    calm = simulate(small_job(), timing_only=True)
    story = simulate(small_job(faults=[crash("coordinator", calm.time_s)]), timing_only=True)
    assert (story.time_s, story.of(Resumed)) == (calm.time_s, [])
    assert whole(story)


def test_a_resumed_run_does_not_lose_its_coordinator_again() -> None:
    job, keeper = small_job(epochs=4, faults=[crash("coordinator", 0.1), crash("ps-1", 0.2)]), MemoryKeeper()
    simulate(job, keeper=keeper, timing_only=True)
    resumed = simulate(job, keeper=keeper, timing_only=True, resume=True)
    assert len(resumed.of(Resumed)) == 1
    assert resumed.of(NodeLost) == []


def test_a_worker_is_never_handed_its_former_selfs_mail() -> None:
    """Both are cut off. The server gives up the slow one first and answers the other, which waited for it: the answer
    must not reach the process that takes that one's place, or it would be a step ahead."""
    cut = Fault(at_s=0.5, kind="partition", link=("lab", "lab"), seconds=3.0)
    job = small_job(continuum=small_continuum((10.0, 100.0)), strategy="parameter_server", planner="fair", mode="bsp",
                    epochs=4, faults=[cut])  # fmt: skip
    story = simulate(job, timing_only=True)
    assert [event.node for event in story.of(NodeLost)] == ["w-1", "w-2"]
    assert whole(story)


def test_a_rollback_takes_back_even_the_last_epoch() -> None:
    """One of two servers on a device stalls; the other uses the last samples the very moment that one is given up."""
    described = small_continuum((4.0, 4.0), bandwidth=1e40, latency_s=0.0)
    devices = tuple(replace(device, memory_bytes_per_s=1e40) for device in described.devices)
    job = small_job(
        continuum=replace(described, devices=devices), strategy="parameter_server", planner="fair", mode="asp",
        servers=2, epochs=1, task={"samples": 24, "batch": 2}, faults=[pause("ps-1", 2.75, 1.5)],
    )  # fmt: skip
    story = simulate(job, timing_only=True)
    assert story.of(EpochFinished)[0].t == story.of(Resumed)[0].t == 4.25
    assert whole(story)
