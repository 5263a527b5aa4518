"""The simulated world: exact times, apps, faults, and what must hold whatever goes wrong."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.continuum.app import App
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import HEADER_BYTES, Link
from littoral.continuum.signal import Constant, Steps
from littoral.events import (
    AppChecked,
    Checkpointed,
    Computed,
    DeadlineMissed,
    Fetched,
    NodeLost,
    NodeReturned,
    OutOfMemory,
    Resumed,
    Sent,
)
from littoral.job import Fault, Job
from littoral.testing import MemoryKeeper, fail_at, simulate, small_continuum, small_job
from littoral.worlds.simulated.ring import leg_bytes

MODES = [("allreduce", {}), ("parameter_server", {"mode": "asp"}), ("parameter_server", {"mode": "bsp"}),
         ("parameter_server", {"mode": "ssp", "bound": 2}),
         ("parameter_server", {"mode": "bsp", "backups": 1})]  # fmt: skip


def timed(job: Job, **options: object) -> object:
    return simulate(job, timing_only=True, **options)


def test_a_step_takes_what_the_formulas_say() -> None:
    """Two equal workers: compute + 2(n-1)/n M/r + two hops of latency + three passes over memory."""
    job = small_job(continuum=small_continuum((100.0, 100.0), bandwidth=1e4, latency_s=0.05), epochs=1)
    story = simulate(job, timing_only=True)
    vector = story.session.footprint.vector_bytes
    step = 8 / 100 + leg_bytes(vector, 2) / 1e4 + 2 * 0.05 + 3 * vector / 20e9
    steps = 240 / 2 / 8
    last = story.of(Computed)[-1]
    assert last.t == pytest.approx((steps - 1) * step + 8 / 100)


@pytest.mark.parametrize(("workers", "legs", "headers"), [(3, 2, 2), (10, 1, 1)])
def test_all_reduce_bytes_are_the_textbook_amount(workers: int, legs: int, headers: int) -> None:
    """Each member sends 2(n-1)/n of the vector, directly to the others or around a ring."""
    story = simulate(small_job(workers=workers, epochs=1), timing_only=True)
    vector = story.session.footprint.vector_bytes
    shares = [event for event in story.of(Sent) if event.message == "Share" and event.source == "w-1"]
    first = [event for event in shares if event.t == shares[0].t]
    assert len(first) == legs
    expected = 2 * (workers - 1) / workers * vector
    assert sum(event.size - headers * HEADER_BYTES for event in first) == pytest.approx(expected, abs=2 * legs)


def test_a_push_takes_latency_plus_size_over_rate() -> None:
    job = small_job(workers=1, strategy="parameter_server", mode="asp",
                    continuum=small_continuum((100.0,), bandwidth=1e4, latency_s=0.25), epochs=1)  # fmt: skip
    story = simulate(job, timing_only=True)
    push = next(event for event in story.of(Sent) if event.message == "Push")
    assert push.t - push.start == pytest.approx(0.25 + push.size / 1e4)


def test_clock_spread_never_exceeds_the_staleness_bound() -> None:
    for bound in (0, 1, 3):
        job = small_job(strategy="parameter_server", planner="fair", mode="ssp", bound=bound, workers=4)
        story = simulate(job, timing_only=True)
        done = {worker.name: 0 for worker in story.plan.workers}
        total = {w.name: 2 * -(-w.shard // w.batch) for w in story.plan.workers}
        spread = 0
        for event in story.of(Computed):
            active = [n for n, c in done.items() if c < total[n]]
            done[event.node] += 1
            spread = max(spread, done[event.node] - min(done[n] for n in active))
        # An iteration in progress counts: whoever completes one may be bound + 1 ahead, and no more.
        assert spread <= bound + 1
        assert bound == 0 or spread > 1


# -- sharing a device -------------------------------------------------------------------------------------------


def with_app(app: App, **device: object) -> Job:
    continuum = small_continuum((100.0,))
    devices = tuple(dataclasses.replace(d, **device) if d.name == "w-1" else d for d in continuum.devices)
    return small_job(workers=1, epochs=1, continuum=dataclasses.replace(continuum, devices=devices, apps=(app,)))


def test_training_and_apps_slow_each_other_down() -> None:
    app = App(name="sift", on=("w-1",), period_s=0.2, deadline_s=0.2, work_s=0.06, demand=0.5)
    story = simulate(with_app(app), timing_only=True)
    verdict = story.of(AppChecked)[0]
    assert verdict.violated == 0
    assert verdict.worst_s == pytest.approx(0.06 * 1.5, rel=0.05)
    # 30 steps of 0.08 s; in each 0.2 s period the app takes 0.09 s, in which training gets 0.06 s.
    assert story.of(Computed)[-1].t == pytest.approx(30 * 0.08 / (0.17 / 0.2), rel=0.06)


def test_a_deadline_that_training_breaks_is_counted() -> None:
    app = App(name="sift", on=("w-1",), period_s=0.2, deadline_s=0.1, work_s=0.08, demand=0.9)
    job = with_app(app)
    from littoral.errors import Infeasible

    with pytest.raises(Infeasible, match=r"sift.*w-1"):
        simulate(job, timing_only=True)
    relaxed = dataclasses.replace(app, deadline_s=0.16)
    plan = simulate(with_app(relaxed), timing_only=True).plan
    story = simulate(job, plan=plan, timing_only=True)
    verdict = story.of(AppChecked)[0]
    assert verdict.violated == len(story.of(DeadlineMissed)) > 0.5 * verdict.checked


def test_load_that_comes_and_goes_slows_steps_meanwhile() -> None:
    job = small_job(workers=1, epochs=1)
    devices = tuple(
        dataclasses.replace(d, load=Steps((0.0, 1.0), (0.0, 1.0))) if d.name == "w-1" else d
        for d in job.continuum.devices
    )
    loaded = dataclasses.replace(job, continuum=dataclasses.replace(job.continuum, devices=devices))
    story = simulate(loaded, timing_only=True)
    free = [e.t - e.start for e in story.of(Computed) if e.t <= 1.0]
    crowded = [e.t - e.start for e in story.of(Computed) if e.start >= 1.0]
    assert free == pytest.approx([0.08] * len(free))
    assert crowded == pytest.approx([0.16] * len(crowded))


def test_a_batch_beyond_memory_is_an_event_and_is_cut() -> None:
    job = small_job(workers=2, epochs=1)
    plan = simulate(job, timing_only=True).plan
    footprint = simulate(job, timing_only=True).session.footprint
    room = 4 * footprint.vector_bytes + 3.5 * footprint.activation_bytes
    devices = tuple(dataclasses.replace(d, memory_bytes=room) if d.name == "w-1" else d for d in job.continuum.devices)
    poor = dataclasses.replace(job, continuum=dataclasses.replace(job.continuum, devices=devices))
    story = simulate(poor, plan=plan, timing_only=True)
    assert story.of(OutOfMemory)[0].limit == 3
    assert len(story.of(OutOfMemory)) == 1  # the supervisor made the batch smaller
    assert max(e.samples for e in story.of(Computed) if e.node == "w-1") == 3
    assert story.contradictions() == []


# -- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_crash_is_survived_and_no_sample_is_lost(strategy: str, parameters: dict[str, object]) -> None:
    job = small_job(strategy=strategy, faults=[fail_at("w-2", 0.7)], **parameters)
    story = simulate(job)
    assert [event.node for event in story.of(NodeLost)] == ["w-2"]
    assert story.reason == "epochs"
    assert story.contradictions() == []
    assert story.session.members == ("w-1", "w-3")


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_worker_that_returns_works_again(strategy: str, parameters: dict[str, object]) -> None:
    job = small_job(strategy=strategy, epochs=12, faults=[fail_at("w-2", 0.7, back_after_s=2.0)], **parameters)
    story = simulate(job)
    back = story.of(NodeReturned)[0].t
    assert any(event.node == "w-2" and event.start >= back for event in story.of(Computed))
    assert story.contradictions() == []


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


@pytest.mark.parametrize("mode", ["asp", "bsp", "ssp"])
def test_a_lost_server_goes_back_to_the_checkpoint(mode: str) -> None:
    job = small_job(strategy="parameter_server", mode=mode, epochs=4, faults=[fail_at("ps-1", 2.5)])
    story = simulate(job)
    resumed = story.of(Resumed)[0]
    checkpoints = [event for event in story.of(Checkpointed) if event.t <= resumed.t]
    assert resumed.since == (checkpoints[-1].t if checkpoints else 0.0)
    assert story.reason == "epochs"
    assert story.contradictions() == []


def test_the_last_worker_lost_ends_the_run_with_a_reason() -> None:
    story = simulate(small_job(workers=1, faults=[fail_at("w-1", 0.5)]), timing_only=True)
    assert story.reason == "no worker is left"


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


def two_sites() -> Continuum:
    def device(name: str, site: str) -> Device:
        return Device(name=name, site=site, step=StepTime(seconds_per_sample=0.01), memory_bytes=1e9)

    lan, wan = Constant(1e6), Constant(1e5)
    return Continuum(
        name="two", sites=(Site(name="a"), Site(name="b", tier="cloud")),
        devices=(device("w-1", "a"), device("w-2", "a"), device("w-3", "b"), device("hub", "a")),
        links=(Link(a="a", b="a", forward=lan, backward=lan, latency_s=0.001),
               Link(a="a", b="b", forward=wan, backward=wan, latency_s=0.05)),
    )  # fmt: skip


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_a_partition_excludes_the_far_side_until_it_heals(strategy: str, parameters: dict[str, object]) -> None:
    cut = Fault(at_s=0.5, kind="partition", link=("a", "b"), seconds=3.0)
    job = small_job(strategy=strategy, continuum=two_sites(), faults=[cut], epochs=6, **parameters)
    story = simulate(job)
    assert [event.node for event in story.of(NodeLost)] == ["w-3"]
    assert [event.node for event in story.of(NodeReturned)] == ["w-3"]
    assert story.reason == "epochs"
    assert story.contradictions() == []


def test_a_short_partition_goes_unnoticed() -> None:
    cut = Fault(at_s=0.5, kind="partition", link=("a", "b"), seconds=1.0)
    story = simulate(small_job(continuum=two_sites(), faults=[cut]), timing_only=True)
    assert story.of(NodeLost) == []
    assert story.contradictions() == []


def test_data_comes_from_the_store_before_work_begins() -> None:
    from littoral.continuum.app import Store

    continuum = dataclasses.replace(
        small_continuum((100.0, 100.0), bandwidth=1e4), stores=(Store(name="disk", site="lab", device="hub"),)
    )
    story = simulate(small_job(continuum=continuum, epochs=1), timing_only=True)
    footprint = story.session.footprint
    size = 120 * footprint.sample_bytes + footprint.vector_bytes
    # Both fetch at once from a hub whose port does 1e4 bytes/s.
    assert [event.t for event in story.of(Fetched)] == pytest.approx([2 * size / 1e4 + 0.01] * 2)
    assert min(event.start for event in story.of(Computed)) == pytest.approx(2 * size / 1e4 + 0.01)


# -- whatever goes wrong ----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("strategy", "parameters"), MODES)
def test_an_outage_of_everybody_is_waited_for(strategy: str, parameters: dict[str, object]) -> None:
    faults = [fail_at(f"w-{i}", 1.5, back_after_s=2.0) for i in (1, 2, 3)]
    story = simulate(small_job(strategy=strategy, epochs=4, faults=faults, **parameters))
    assert story.reason == "epochs"
    assert story.contradictions() == []


def test_a_server_is_gone_as_long_as_it_says() -> None:
    def lost_for(seconds: float) -> float:
        fault = Fault(at_s=1.0, kind="crash", node="hub", seconds=seconds)
        return simulate(small_job(strategy="parameter_server", faults=[fault]), timing_only=True).time_s

    assert lost_for(20.0) == pytest.approx(lost_for(2.0) + 18.0)
    gone = Fault(at_s=1.0, kind="crash", node="hub")
    story = simulate(small_job(strategy="parameter_server", faults=[gone]), timing_only=True)
    assert story.reason == "ps-1 was lost and did not return"


def test_faults_add_up_and_end_apart() -> None:
    slow = Fault(at_s=0.5, kind="slow-device", node="w-1", factor=0.2)
    pause = Fault(at_s=1.0, kind="pause", node="w-1", seconds=1.0)
    alone = simulate(small_job(workers=1, faults=[slow]), timing_only=True).time_s
    both = simulate(small_job(workers=1, faults=[slow, pause]), timing_only=True).time_s
    assert both == pytest.approx(alone + 1.0)


def test_many_crashes_and_returns_keep_the_work_spread() -> None:
    """Rounding must not pile up on one worker, nor cut the work into crumbs."""
    from littoral.learning.leases import Ledger

    ledger = Ledger({f"w-{i}": 200 for i in range(6)}, epochs=20)
    for _ in range(8):
        got = ledger.rebalance({f"w-{i}": 200.0 for i in range(6)})
    assert set(got.values()) == {4000}
    assert sum(len(spans) for spans in ledger._todo.values()) < 300


def test_same_seed_same_events_other_seed_other_events() -> None:
    job = small_job(continuum=small_continuum(jitter=0.1), faults=[fail_at("w-2", 0.7, back_after_s=1.0)])
    first, again, other = simulate(job, seed=1), simulate(job, seed=1), simulate(job, seed=2)
    assert first.events == again.events
    assert first.events != other.events


def test_resuming_from_a_checkpoint_finishes_the_work_exactly_once() -> None:
    keeper = MemoryKeeper()
    job = small_job(epochs=4)
    whole = simulate(job, keeper=keeper)
    # A process killed after its second epoch leaves that epoch's checkpoint behind.
    stop_at = [event.t for event in whole.of(Checkpointed)][1]
    keeper = MemoryKeeper()
    saves = []
    original = keeper.save

    def save_twice(tensors: dict[str, object], metadata: dict[str, object]) -> None:
        if len(saves) < 2:
            saves.append(metadata["t"])
            original(tensors, metadata)

    keeper.save = save_twice  # type: ignore[method-assign]
    simulate(job, keeper=keeper)
    resumed = simulate(job, keeper=keeper, resume=True)
    assert saves[1] == stop_at == resumed.of(Resumed)[0].since
    before = [event for event in whole.events if event.t <= stop_at]
    merged = dataclasses.replace(whole, events=before + resumed.events)
    assert merged.contradictions() == []
    # All-reduce has no memory but model and optimiser, so the resumed half repeats the original to the last bit.
    ours, theirs = (s.session.nodes["w-1"].model.vector for s in (resumed, whole))
    assert (ours == theirs).all()


def test_faults_that_still_last_take_effect_again_after_a_resumption() -> None:
    slow = Fault(at_s=0.1, kind="slow-device", node="w-1", factor=0.2)
    gone = fail_at("w-3", 0.2)
    job, keeper = small_job(epochs=4, faults=[slow, gone]), MemoryKeeper()
    whole = simulate(job, keeper=keeper, timing_only=True)
    first = MemoryKeeper()
    original = first.save

    def save_once(tensors: dict[str, object], metadata: dict[str, object]) -> None:
        if first.saved is None:
            original(tensors, metadata)

    first.save = save_once  # type: ignore[method-assign]
    simulate(job, keeper=first, timing_only=True)
    resumed = simulate(job, keeper=first, timing_only=True, resume=True)
    pace = {e.samples: e.t - e.start for e in whole.of(Computed) if e.node == "w-1" and e.start > 1.0}
    again = [e for e in resumed.of(Computed) if e.node == "w-1"]
    assert all(e.t - e.start == pytest.approx(5 * e.samples / 100.0) for e in again)
    assert max(pace.values()) > 0.2  # the slow-down was there in the first place
    assert [event.node for event in resumed.of(NodeLost)] == ["w-3"]
    assert not any(e.node == "w-3" for e in resumed.of(Computed))
