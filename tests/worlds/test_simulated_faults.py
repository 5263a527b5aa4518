"""Faults in virtual time: what each kind does, and what must hold whatever goes wrong."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seaside import MODES, two_sites, whole

from littoral.events import Checkpointed, Computed, NodeLost, NodeReturned, Resumed
from littoral.job import Fault
from littoral.testing import fail_at, simulate, small_job


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_crash_is_survived_and_no_sample_is_lost(strategy: str, parameters: dict[str, object]) -> None:
    job = small_job(strategy=strategy, faults=[fail_at("w-2", 0.7)], **parameters)
    story = simulate(job)
    assert [event.node for event in story.of(NodeLost)] == ["w-2"]
    assert whole(story)
    assert story.session.members == ("w-1", "w-3")


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_worker_that_returns_works_again(strategy: str, parameters: dict[str, object]) -> None:
    job = small_job(strategy=strategy, epochs=12, faults=[fail_at("w-2", 0.7, back_after_s=2.0)], **parameters)
    story = simulate(job)
    back = story.of(NodeReturned)[0].t
    assert any(event.node == "w-2" and event.start >= back for event in story.of(Computed))
    assert story.contradictions() == []


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_an_outage_of_everybody_is_waited_for(strategy: str, parameters: dict[str, object]) -> None:
    faults = [fail_at(f"w-{i}", 1.5, back_after_s=2.0) for i in (1, 2, 3)]
    story = simulate(small_job(strategy=strategy, epochs=4, faults=faults, **parameters))
    assert whole(story)


def test_a_worker_that_leaves_is_missed_at_once_and_may_be_restarted() -> None:
    faults = [Fault(at_s=0.7, kind="leave", node="w-2"), Fault(at_s=3.0, kind="restart", node="w-2")]
    story = simulate(small_job(epochs=12, faults=faults))
    assert [(event.t, event.reason) for event in story.of(NodeLost)] == [(0.7, "left")]
    assert [event.t for event in story.of(NodeReturned)] == [5.0]  # a process takes two seconds to start
    assert any(event.node == "w-2" and event.start > 5.0 for event in story.of(Computed))
    assert story.contradictions() == []


def test_replicas_agree_after_a_worker_returned() -> None:
    job = small_job(epochs=12, faults=[fail_at("w-2", 0.7, back_after_s=2.0)])
    story = simulate(job)
    vectors = [story.session.nodes[name].model.vector for name in story.session.members]
    assert len(vectors) == 3
    assert all((vector == vectors[0]).all() for vector in vectors)


def test_the_last_worker_lost_ends_the_run_with_a_reason() -> None:
    story = simulate(small_job(workers=1, faults=[fail_at("w-1", 0.5)]), timing_only=True)
    assert story.reason == "no worker is left"


@pytest.mark.parametrize("mode", ["asp", "bsp", "ssp"])
def test_a_lost_server_goes_back_to_the_checkpoint(mode: str) -> None:
    job = small_job(strategy="parameter_server", mode=mode, epochs=4, faults=[fail_at("ps-1", 2.5)])
    story = simulate(job)
    resumed = story.of(Resumed)[0]
    checkpoints = [event for event in story.of(Checkpointed) if event.t <= resumed.t]
    assert resumed.since == (checkpoints[-1].t if checkpoints else 0.0)
    assert whole(story)


def test_a_server_is_gone_as_long_as_it_says() -> None:
    def lost_for(seconds: float) -> float:
        fault = Fault(at_s=1.0, kind="crash", node="hub", seconds=seconds)
        return simulate(small_job(strategy="parameter_server", faults=[fault]), timing_only=True).time_s

    assert lost_for(20.0) == pytest.approx(lost_for(2.0) + 18.0)
    gone = Fault(at_s=1.0, kind="crash", node="hub")
    story = simulate(small_job(strategy="parameter_server", faults=[gone]), timing_only=True)
    assert story.reason == "ps-1 was lost and did not return"


def test_a_short_pause_only_delays() -> None:
    fault = Fault(at_s=0.5, kind="pause", node="w-1", seconds=1.0)
    calm = simulate(small_job(), timing_only=True)
    story = simulate(small_job(faults=[fault]), timing_only=True)
    assert story.of(NodeLost) == []
    assert story.time_s == pytest.approx(calm.time_s + 1.0, abs=0.15)


def test_slow_devices_and_links_slow_the_run() -> None:
    calm = simulate(small_job(), timing_only=True).time_s
    slow = Fault(at_s=0.0, kind="slow-device", node="w-1", factor=0.5)
    assert simulate(small_job(faults=[slow]), timing_only=True).time_s > 1.5 * calm
    thin = Fault(at_s=0.0, kind="slow-link", link=("lab", "lab"), factor=0.001)
    assert simulate(small_job(faults=[thin]), timing_only=True).time_s > 1.5 * calm


def test_faults_add_up_and_end_apart() -> None:
    slow = Fault(at_s=0.5, kind="slow-device", node="w-1", factor=0.2)
    pause = Fault(at_s=1.0, kind="pause", node="w-1", seconds=1.0)
    alone = simulate(small_job(workers=1, faults=[slow]), timing_only=True).time_s
    both = simulate(small_job(workers=1, faults=[slow, pause]), timing_only=True).time_s
    assert both == pytest.approx(alone + 1.0)


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_partition_excludes_the_far_side_until_it_heals(strategy: str, parameters: dict[str, object]) -> None:
    cut = Fault(at_s=0.5, kind="partition", link=("a", "b"), seconds=3.0)
    job = small_job(strategy=strategy, continuum=two_sites(), faults=[cut], epochs=6, **parameters)
    story = simulate(job)
    assert [event.node for event in story.of(NodeLost)] == ["w-3"]
    assert [event.node for event in story.of(NodeReturned)] == ["w-3"]
    assert whole(story)


def test_a_short_partition_goes_unnoticed() -> None:
    cut = Fault(at_s=0.5, kind="partition", link=("a", "b"), seconds=1.0)
    story = simulate(small_job(continuum=two_sites(), faults=[cut]), timing_only=True)
    assert story.of(NodeLost) == []
    assert story.contradictions() == []


def random_faults(dice: random.Random, nodes: list[str]) -> list[Fault]:
    kinds = ["crash", "crash", "leave", "restart", "pause", "slow-device", "slow-link", "partition"]
    faults = []
    for _ in range(dice.randint(0, 4)):
        kind = dice.choice(kinds)
        seconds = dice.choice([0.3, 2.0, 5.0, math.inf])
        if kind in ("slow-link", "partition"):
            # A cut or crash that never ends may leave nobody; let some node always survive.
            link = dice.choice([("a", "a"), ("a", "b")]) if kind == "slow-link" else ("a", "b")
            faults.append(Fault(at_s=dice.uniform(0, 4), kind=kind, link=link, seconds=seconds, factor=0.1))
        else:
            node = dice.choice(nodes)
            if node == "w-1" and kind != "slow-device":
                seconds = min(seconds, 5.0)
            if kind == "pause":
                seconds = min(seconds, 5.0)
            faults.append(Fault(at_s=dice.uniform(0, 4), kind=kind, node=node, seconds=seconds, factor=0.2))
    return faults


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_every_sample_once_per_epoch_under_any_faults(seed: int) -> None:
    dice = random.Random(seed)
    strategy, parameters = dice.choice(MODES)
    nodes = ["w-1", "w-2", "w-3"] + (["ps-1"] if strategy == "parameter_server" else [])
    faults = random_faults(dice, nodes)
    planner = dice.choice(["fair", "proportional"])
    job = small_job(strategy=strategy, planner=planner, continuum=two_sites(), faults=faults, epochs=3, **parameters)
    story = simulate(job, seed=seed % 7, timing_only=True)
    if story.reason == "epochs":
        assert story.contradictions() == []
    else:
        assert story.reason in ("no worker is left", "ps-1 was lost and did not return")
