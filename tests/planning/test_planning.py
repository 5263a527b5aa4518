"""Plans: they add up, respect memory, balance time, and predict what the simulation then measures."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.continuum.app import App
from littoral.continuum.device import Handling
from littoral.continuum.routes import Pipe, Route
from littoral.continuum.signal import Constant
from littoral.errors import Infeasible, InputError
from littoral.job import Job, Limits
from littoral.learning.task import load_task
from littoral.planning.batches import equal_finish
from littoral.planning.flows import Leg, last_arrival, queued_cycles
from littoral.planning.paces import expected_maximum
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.testing import simulate, small_continuum, small_job


def planned(job: Job) -> Plan:
    task = load_task(job.task, job.task_options)
    return make_plan(job, task.footprint(), task.recipe)


@given(st.integers(0, 2**32))
def test_batches_sum_respect_memory_and_finish_together(seed: int) -> None:
    dice = random.Random(seed)
    n = dice.randint(1, 10)
    per_sample = [dice.uniform(0.001, 0.1) for _ in range(n)]
    fixed = [dice.choice([0.0, dice.uniform(0, 0.5)]) for _ in range(n)]
    most = [dice.choice([5, 50, 10_000]) for _ in range(n)]
    total = dice.randint(1, 400)
    batches = equal_finish(per_sample, fixed, most, total)
    assert sum(batches) == min(max(total, n), sum(most))
    assert all(1 <= b <= m for b, m in zip(batches, most, strict=True))
    inner = [(fixed[i] + per_sample[i] * b, per_sample[i]) for i, b in enumerate(batches) if 1 < b < most[i]]
    for seconds, step in inner:
        for other, other_step in inner:
            assert seconds <= other + step + other_step + 1e-9  # within a sample of each other


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_plan_covers_the_data_and_fits_in_memory(seed: int) -> None:
    dice = random.Random(seed)
    continuum = small_continuum([dice.uniform(1, 500) for _ in range(dice.randint(1, 6))])
    footprint = load_task(small_job().task, small_job().task_options).footprint()
    devices = tuple(
        dataclasses.replace(
            d, memory_bytes=4 * footprint.vector_bytes + dice.randint(1, 60) * footprint.activation_bytes
        )
        for d in continuum.devices
    )
    strategy, settings_ = dice.choice([("allreduce", {}), ("parameter_server", {"servers": dice.randint(1, 3)})])
    job = small_job(
        continuum=dataclasses.replace(continuum, devices=devices),
        strategy=strategy,
        planner=dice.choice(["fair", "proportional", "auto"]),
        **settings_,
    )
    plan = planned(job)
    assert plan.samples == 240
    for worker in plan.workers:
        limit = job.continuum.device(worker.device).largest_batch(footprint)
        assert 1 <= worker.batch <= min(limit, worker.shard)
    if plan.servers:
        assert plan.servers[0].start == 0
        assert plan.servers[-1].stop == footprint.parameters + footprint.buffers
        assert all(a.stop == b.start for a, b in zip(plan.servers, plan.servers[1:], strict=False))


def test_proportional_gives_slower_workers_less() -> None:
    plan = planned(small_job(continuum=small_continuum((100.0, 50.0, 25.0))))
    shards = [worker.shard for worker in plan.workers]
    assert shards == sorted(shards, reverse=True)
    assert shards[0] == pytest.approx(4 * shards[2], rel=0.3)


CASES = [
    ("allreduce", {}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "asp"}),
    ("parameter_server", {"mode": "ssp", "bound": 3}),
    ("parameter_server", {"mode": "asp", "servers": 2}),
    ("parameter_server", {"mode": "asp", "ahead": 1}),
]


@pytest.mark.parametrize("planner", ["fair", "proportional"])
@pytest.mark.parametrize(("strategy", "parameters"), CASES)
@pytest.mark.parametrize(("bandwidth", "latency_s"), [(1e7, 0.0001), (2e4, 0.02)])
def test_prediction_and_simulation_agree(
    planner: str, strategy: str, parameters: dict[str, object], bandwidth: float, latency_s: float
) -> None:
    """With ample bandwidth to a few per cent; with a congested server to a quarter (the queue is an approximation)."""
    continuum = small_continuum((100.0, 80.0, 50.0, 25.0), bandwidth=bandwidth, latency_s=latency_s, jitter=0.03)
    job = small_job(continuum=continuum, strategy=strategy, planner=planner, epochs=3, **parameters)
    story = simulate(job, timing_only=True)
    tolerance = 0.06 if bandwidth > 1e6 else 0.25
    assert story.plan.predicted.time_s == pytest.approx(story.time_s, rel=tolerance)


@pytest.mark.parametrize("wire", ["float32", "float16"])
def test_bytes_predicted_are_bytes_sent(wire: str) -> None:
    from littoral.events import Sent

    for strategy, parameters in CASES:
        job = replace(small_job(strategy=strategy, planner="fair", **parameters), wire=wire)
        story = simulate(job, timing_only=True)
        sent = sum(event.size for event in story.of(Sent))
        assert story.plan.predicted.bytes_sent == pytest.approx(sent, rel=0.1)


def test_half_the_bytes_take_half_the_transfer() -> None:
    continuum = small_continuum(bandwidth=2e4, latency_s=0.0)
    whole, half = (planned(replace(small_job(continuum=continuum), wire=wire)) for wire in ("float32", "float16"))
    transfers = [next(t.seconds for t in plan.predicted.terms if t.name == "transfer") for plan in (whole, half)]
    assert 0.5 < transfers[1] / transfers[0] < 0.8  # headers stay


def test_computing_ahead_of_answers_hides_a_long_way() -> None:
    """Steps of 80 ms and exchanges of 400 ms: with one answer ahead, two exchanges are under way at a time."""
    continuum = small_continuum((100.0, 100.0), bandwidth=1e9, latency_s=0.2)
    patient, eager = (
        simulate(
            small_job(continuum=continuum, strategy="parameter_server", mode="asp", ahead=ahead, epochs=4),
            timing_only=True,
        )
        for ahead in (0, 1)
    )
    assert eager.time_s < 0.6 * patient.time_s
    assert eager.plan.predicted.time_s == pytest.approx(eager.time_s, rel=0.1)


def test_who_pays_much_for_messages_gets_fewer_samples() -> None:
    def with_handling(per_message_s: float) -> Plan:
        described = small_continuum((50.0, 50.0))
        first, *rest = described.devices
        costly = replace(first, handling=Handling(per_message_s=per_message_s, per_byte_s=0.0))
        return planned(small_job(continuum=replace(described, devices=(costly, *rest)), task={"samples": 600}))

    even, uneven = with_handling(0.0), with_handling(0.02)
    assert even.worker("w-1").batch == even.worker("w-2").batch
    # Four messages of 20 ms are as long as four samples.
    assert uneven.worker("w-2").batch - uneven.worker("w-1").batch in (3, 4, 5)


def test_terms_sum_to_the_time() -> None:
    predicted = planned(small_job()).predicted
    assert sum(term.seconds for term in predicted.terms) == pytest.approx(predicted.time_s)


def test_auto_takes_the_best_planner_and_says_why() -> None:
    plan = planned(small_job(continuum=small_continuum((100.0, 5.0)), planner="auto"))
    assert "the alternatives" in plan.reasons[0]
    assert plan.planner == "proportional"


def test_data_split_by_store_stays_with_its_readers() -> None:
    from littoral.continuum.app import Store
    from littoral.continuum.link import Link

    base = small_continuum((100.0, 50.0, 25.0))
    far = dataclasses.replace(base.devices[2], site="far")
    rate = Constant(1e6)
    continuum = dataclasses.replace(
        base,
        sites=(*base.sites, dataclasses.replace(base.sites[0], name="far")),
        devices=(base.devices[0], base.devices[1], far, base.devices[3]),
        links=(*base.links, Link(a="lab", b="far", forward=rate, backward=rate, latency_s=0.1)),
        stores=(Store(name="here", site="lab", samples=100), Store(name="there", site="far", samples=20)),
    )
    job = dataclasses.replace(small_job(continuum=continuum), split="by-store")
    plan = planned(job)
    assert {worker.name: worker.store for worker in plan.workers} == {"w-1": "here", "w-2": "here", "w-3": "there"}
    assert sum(w.shard for w in plan.workers if w.store == "here") == 200  # 100 of 120, of 240 samples
    story = simulate(job)
    assert story.contradictions() == []
    with pytest.raises(InputError, match="by-store without a store"):
        planned(dataclasses.replace(small_job(), split="by-store"))


def test_dirichlet_shards_train_too() -> None:
    story = simulate(dataclasses.replace(small_job(), split="dirichlet", alpha=0.3))
    assert story.contradictions() == []
    assert story.reason == "epochs"


def test_objectives_choose_differently() -> None:
    from littoral.planning.plan import fairness

    job = small_job(continuum=small_continuum((100.0, 20.0)), planner="auto")
    plan = planned(dataclasses.replace(job, objective="fairness"))
    assert plan.planner == "proportional"
    assert fairness(plan) == pytest.approx(1.0, abs=0.01)
    assert fairness(planned(dataclasses.replace(job, planner="fair"))) < 0.8


# -- refusal ------------------------------------------------------------------------------------------------------


def test_several_apps_and_peaks_of_load_count_against_a_deadline() -> None:
    app = App(name="one", on=("w-1",), period_s=0.25, deadline_s=0.2, work_s=0.1, demand=0.5)
    alone = dataclasses.replace(small_continuum(), apps=(app,))
    assert planned(small_job(continuum=alone)).workers
    crowd = tuple(dataclasses.replace(app, name=name) for name in ("one", "two", "three"))
    with pytest.raises(Infeasible, match=r"app 'one' on device 'w-1' binds"):
        planned(small_job(continuum=dataclasses.replace(small_continuum(), apps=crowd)))


def test_more_backups_than_workers_are_refused() -> None:
    with pytest.raises(InputError, match="give fewer backups than workers"):
        planned(small_job(strategy="parameter_server", mode="bsp", backups=3))


def test_a_server_needs_memory_too() -> None:
    continuum = small_continuum()
    devices = tuple(dataclasses.replace(d, memory_bytes=10.0 if d.name == "hub" else 1e9) for d in continuum.devices)
    with pytest.raises(Infeasible, match="no device that may serve"):
        planned(small_job(continuum=dataclasses.replace(continuum, devices=devices), strategy="parameter_server"))


def test_a_deadline_that_cannot_be_kept_is_named() -> None:
    job = dataclasses.replace(small_job(), limits=Limits(deadline_s=0.1))
    with pytest.raises(Infeasible, match=r"deadline binds: 100 ms allowed, .* predicted, most of it compute"):
        planned(job)


def test_a_budget_that_cannot_be_kept_is_named() -> None:
    continuum = small_continuum()
    devices = tuple(dataclasses.replace(d, price_usd_per_s=1.0) for d in continuum.devices)
    job = small_job(continuum=dataclasses.replace(continuum, devices=devices))
    with pytest.raises(Infeasible, match="budget binds"):
        planned(dataclasses.replace(job, limits=Limits(cost_usd=0.5)))


def test_memory_that_holds_no_sample_is_named() -> None:
    continuum = small_continuum()
    devices = tuple(dataclasses.replace(d, memory_bytes=100.0) for d in continuum.devices)
    with pytest.raises(Infeasible, match=r"memory of device 'w-1' binds"):
        planned(small_job(continuum=dataclasses.replace(continuum, devices=devices)))


def test_an_app_that_would_miss_its_deadline_is_named() -> None:
    app = App(name="sift", on=("w-2",), period_s=0.2, deadline_s=0.1, work_s=0.08, demand=0.9)
    job = small_job(continuum=dataclasses.replace(small_continuum(), apps=(app,)))
    with pytest.raises(Infeasible, match=r"app 'sift' on device 'w-2' binds"):
        planned(job)


def test_unknown_planners_and_strategies_are_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'proportional'"):
        planned(small_job(planner="propotional"))
    with pytest.raises(InputError, match="did you mean 'allreduce'"):
        planned(small_job(strategy="alreduce"))
    with pytest.raises(InputError, match="did you mean 'bound'"):
        planned(small_job(strategy="parameter_server", bond=3))


# -- formulas -----------------------------------------------------------------------------------------------------


def test_queue_of_one_is_no_queue_and_a_saturated_server_sets_the_pace() -> None:
    pipe = Pipe("x", Constant(1.0))
    assert queued_cycles([2.0], [[Leg(0.5, pipe, 0.5)]]) == pytest.approx([2.5])
    assert queued_cycles([0.1] * 20, [[Leg(1.0, pipe, 1.0)]] * 20) == pytest.approx([20.0] * 20, rel=0.02)
    assert queued_cycles([2.0, 2.0], [[Leg(0.5)], [Leg(0.7)]]) == pytest.approx([2.5, 2.7])
    assert queued_cycles([3.0], [[Leg(1.0)]], ahead=3) == pytest.approx([1.0])  # four at once, in nobody's way
    assert queued_cycles([0.1], [[Leg(1.0, pipe, 1.0)]], ahead=9) == pytest.approx([1.0], rel=0.02)  # one at a time


def test_expected_maximum_grows_slowly() -> None:
    assert expected_maximum(1) == pytest.approx(0.0, abs=1e-9)
    assert expected_maximum(10) == pytest.approx(1.54, abs=0.02)


def test_the_last_of_simultaneous_transfers_waits_for_the_others() -> None:
    way = Route(pipes=(Pipe("x", Constant(100.0)),), latency_s=0.5)
    assert last_arrival([0.0, 0.0], [way, way], 100.0) == pytest.approx(2.5)
    assert last_arrival([0.0, 5.0], [way, way], 100.0) == pytest.approx(6.5)
