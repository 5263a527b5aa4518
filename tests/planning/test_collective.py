"""Who owns what in an all-reduce, and the messages that follow from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.continuum.device import Handling
from littoral.continuum.link import HEADER_BYTES
from littoral.continuum.signal import Constant
from littoral.events import Sent, Used
from littoral.learning.task import load_task
from littoral.planning.collective import DIRECT, cut, ends, phases
from littoral.planning.planner import make_plan
from littoral.testing import simulate, small_continuum, small_job

MEMBERS = [f"w-{i + 1}" for i in range(12)]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12), st.integers(1, 2000))
def test_parts_cover_the_vector_once(weights: list[float], length: int) -> None:
    members = MEMBERS[: len(weights)]
    parts = cut(members, dict(zip(members, weights, strict=True)), length)
    assert [i for part in parts.values() for i in part] == list(range(length))
    for member, weight in zip(members, weights, strict=True):
        assert any(weights) <= (weight > 0 or not parts[member])  # who has no weight owns nothing


def test_without_weights_parts_are_nearly_equal() -> None:
    assert [len(part) for part in cut(MEMBERS[:4], {}, 10).values()] == [2, 3, 2, 3]


@given(st.lists(st.floats(0, 100), min_size=2, max_size=DIRECT), st.integers(1, 2000))
def test_everyone_handles_the_messages_it_sends_and_gets(weights: list[float], length: int) -> None:
    members = MEMBERS[: len(weights)]
    parts = cut(members, dict(zip(members, weights, strict=True)), length)
    legs = [leg for phase in phases(parts, 4) for leg in phase]
    for member in members:
        mine = [leg for leg in legs if member in (leg.source, leg.target)]
        assert ends(parts, member) == (len(mine), sum(leg.size - HEADER_BYTES for leg in mine) // 4)


def uneven(**more: Any) -> Any:
    """Three quick devices and one on which every message costs a tenth of a second."""
    continuum = small_continuum((100.0, 100.0, 100.0, 20.0), **more)
    dear = replace(continuum.devices[3], handling=Handling(per_message_s=0.1, per_byte_s=0.0))
    return replace(continuum, devices=(*continuum.devices[:3], dear))


def plan_of(job: Any) -> Any:
    task = load_task(job.task, job.task_options)
    return make_plan(job, task.footprint(), task.recipe)


def test_a_device_to_which_messages_are_dear_owns_nothing() -> None:
    job = small_job(continuum=uneven(bandwidth=1e6), planner="proportional", epochs=1)
    plan = plan_of(job)
    assert plan.worker("w-4").reduces == 0 < plan.worker("w-1").reduces
    assert any("w-4 would lose more by it" in reason for reason in plan.reasons)
    fair = plan_of(replace(job, planner="fair"))
    assert {worker.reduces for worker in fair.workers} == {1.0}


def test_a_slow_port_carries_the_vector_once() -> None:
    continuum = small_continuum((100.0,) * 4, bandwidth=1e6)
    slow = replace(continuum.devices[2], uplink=Constant(1e4))
    job = small_job(
        continuum=replace(continuum, devices=(*continuum.devices[:2], slow, continuum.devices[3])),
        planner="proportional", epochs=1,
    )  # fmt: skip
    assert plan_of(job).worker("w-3").reduces == 0


@pytest.mark.parametrize("bandwidth", [1e4, 1e6])
def test_simulation_sends_what_is_planned_and_takes_as_long(bandwidth: float) -> None:
    job = small_job(continuum=uneven(bandwidth=bandwidth), planner="proportional", epochs=1)
    story = simulate(job, timing_only=True)
    plan = plan_of(job)
    sent = story.of(Sent)
    assert not [event for event in sent if event.message == "Mean" and event.source == "w-4"]
    assert sum(event.size for event in sent) == plan.predicted.bytes_sent
    assert story.of(Used)[-1].t == pytest.approx(plan.predicted.time_s, rel=0.05)
