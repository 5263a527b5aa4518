"""A thousand storms in virtual time: whatever goes wrong, runs end for a reason and use every sample once per epoch."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from littoral.continuum.write import continuum_document
from littoral.errors import RunFailed
from littoral.events import Used
from littoral.job import COORDINATOR, Fault, Job, job_document, load_job
from littoral.strategies.strategy import make_strategy
from littoral.supervisor import NOBODY
from littoral.testing import (
    SETTINGS,
    STORM_S,
    Story,
    check_strategy,
    random_faults,
    simulate,
    small_continuum,
    small_job,
    stormy_job,
)

STORMS, BATCH = 1000, 50
CLEAR = re.compile(
    rf"no worker is left|{NOBODY}|the coordinator does not answer"
    r"|ps-\d was lost and did not return|disk was lost and did not return, and w-\d needs its data"
)


def check(job: Job, *, seed: int, may_fail: bool) -> None:
    story = simulate(job, seed=seed, timing_only=True)
    told = f"storm {seed}: {story.reason}"
    if story.reason == "epochs":
        assert story.contradictions() == [], told
    else:
        assert story.reason == NOBODY or may_fail, told
        assert CLEAR.fullmatch(story.reason), told


@pytest.mark.parametrize("first", range(0, STORMS, BATCH))
def test_storms(first: int) -> None:
    """Half of them leave everybody who is needed able to come back: those are survived."""
    for seed in range(first, first + BATCH):
        survivable = seed % 2 == 0
        check(stormy_job(seed, survivable=survivable), seed=seed, may_fail=not survivable)


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_storms_of_coincidences(first: int) -> None:
    """Steps, messages and faults that fall on the same instants, and freezes of everything."""
    for seed in range(first, first + BATCH):
        check(_in_step(seed), seed=seed, may_fail=True)


def _in_step(seed: int) -> Job:
    dice = random.Random(seed)
    strategy, parameters = dice.choice(SETTINGS)
    described = small_continuum([4.0, 4.0, 2.0][: dice.randint(2, 3)], bandwidth=1e40, latency_s=0.0)
    devices = tuple(replace(device, memory_bytes_per_s=1e40) for device in described.devices)
    job = small_job(
        continuum=replace(described, devices=devices), strategy=strategy, planner="fair", epochs=4,
        task={"samples": 24, "batch": 2}, **parameters,
    )  # fmt: skip
    faults = tuple(_fault(dice, job) for _ in range(dice.randint(1, 5)))
    return replace(job, faults=faults, on_failure=dice.choice(["elastic", "deepedge"]))


def _fault(dice: random.Random, job: Job) -> Fault:
    served = make_strategy(job.strategy, job.parameters).models == "served"
    servers = ["ps-1", "hub"] if served else []
    node = dice.choice([*job.workers, COORDINATOR, *servers])
    kind = dice.choice(["crash", "pause"] if node == COORDINATOR else ["crash", "pause", "leave", "slow-device"])
    return Fault(at_s=dice.randrange(30) / 2, kind=kind, node=node, seconds=dice.choice([0.5, 1.0, 1.5, 2.0, 4.0]))


@pytest.mark.parametrize("seed", range(12))
def test_storms_with_real_gradients(seed: int) -> None:
    story = simulate(stormy_job(seed), seed=seed)
    assert story.reason == "epochs"
    assert story.contradictions() == []
    if story.plan.strategy == "allreduce":
        vectors = [story.session.nodes[name].model.vector for name in story.session.members]  # type: ignore[union-attr]
        assert all((vector == vectors[0]).all() for vector in vectors)


# -- what the storms are made of --------------------------------------------------------------------------------


def test_a_storm_is_a_function_of_its_seed() -> None:
    job = stormy_job(5)
    assert stormy_job(5) == job != stormy_job(6)
    assert simulate(job, timing_only=True).events == simulate(job, timing_only=True).events


def test_every_kind_of_fault_strikes_everyone() -> None:
    faults = [fault for seed in range(300) for fault in stormy_job(seed).faults]
    hit = {(fault.kind, re.sub(r"-\d", "", fault.node)) for fault in faults}
    assert hit == {
        ("crash", "w"), ("crash", "ps"), ("crash", "disk"), ("crash", "coordinator"), ("pause", "w"),
        ("partition", ""), ("slow-link", ""), ("slow-device", "w"),
    }  # fmt: skip
    assert {len(stormy_job(seed).faults) for seed in range(300)} == set(range(1, 7))
    assert {len(stormy_job(seed).workers) for seed in range(300)} == {2, 3, 4, 5}
    assert {stormy_job(seed).on_failure for seed in range(300)} == {"elastic", "deepedge"}
    assert {fault.seconds for fault in faults if fault.kind == "partition"} == {5.0}
    assert all(0 <= fault.at_s <= STORM_S for fault in faults)


def test_storms_scale() -> None:
    job = stormy_job(3)
    half = random_faults(3, job, scale=0.5)
    assert [(fault.at_s, fault.seconds) for fault in half] == [(f.at_s / 2, f.seconds / 2) for f in job.faults]
    quick = simulate(replace(stormy_job(3, scale=0.1), faults=()), timing_only=True).time_s
    assert quick == pytest.approx(simulate(replace(job, faults=()), timing_only=True).time_s / 10, rel=0.1)


def test_survivable_storms_spare_the_first_worker_and_the_stores() -> None:
    gone = [
        (seed % 2, fault.node)
        for seed in range(400)
        for fault in stormy_job(seed, survivable=seed % 2 == 0).faults
        if fault.kind == "crash" and fault.seconds == float("inf")
    ]
    assert {"w-1", "disk"} <= {node for fatal, node in gone if fatal}
    assert not {"w-1", "disk"} & {node for fatal, node in gone if not fatal}


def test_storms_can_be_written_to_a_file_and_read_back(tmp_path: Path) -> None:
    for seed in range(10):
        job = stormy_job(seed)
        (tmp_path / "continuum.yaml").write_text(yaml.safe_dump(continuum_document(job.continuum)))
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_document(job)))
        assert load_job(tmp_path / "job.yaml") == job


# -- the contract, in any world ---------------------------------------------------------------------------------


def test_the_contract_can_be_run_in_another_world() -> None:
    seen: list[Job] = []

    def elsewhere(job: Job) -> Story:
        seen.append(job)
        story = simulate(job, seed=3)
        return Story(story.plan, events=story.events)

    story = check_strategy("parameter_server", run=elsewhere, mode="bsp")
    assert story.session is None
    assert [job.parameters for job in seen] == [{"mode": "bsp"}]


def test_a_world_that_loses_samples_breaks_the_contract() -> None:
    def forgetful(job: Job) -> Story:
        story = simulate(job)
        used = story.of(Used)[5]
        return Story(story.plan, events=[event for event in story.events if event is not used])

    with pytest.raises(RunFailed, match="never used"):
        check_strategy("allreduce", run=forgetful)
