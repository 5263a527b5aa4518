"""The supervisor is pure: feed it events, compare what it says."""

from __future__ import annotations

from littoral.commands import Admit, Exclude, Rebatch, Relaunch, SaveCheckpoint, Stop
from littoral.events import EpochFinished, Evaluated, NodeLost, NodeReturned, OutOfMemory
from littoral.planning.plan import Plan, Prediction, Server, Worker
from littoral.supervisor import Supervisor

PLAN = Plan(
    planner="fair",
    strategy="parameter_server",
    workers=tuple(Worker(name=n, device=n, shard=s, batch=8, samples_per_s=1.0) for n, s in (("a", 30), ("b", 10))),
    servers=(Server(name="ps-1", device="c", start=0, stop=10),),
    epochs=2,
    predicted=Prediction(time_s=1.0, epoch_s=0.5, bytes_sent=0, wan_bytes=0, cost_usd=0),
)


def evaluated(accuracy: float) -> Evaluated:
    return Evaluated(t=1.0, samples=10, accuracy=accuracy, loss=0.1)


def test_the_target_counts_when_the_median_of_three_passes_it() -> None:
    supervisor = Supervisor(PLAN, target=0.9)
    answers = [supervisor.handle(evaluated(a)) for a in (0.95, 0.5, 0.95, 0.8)]
    assert answers == [[], [], [Stop("target")], []]


def test_a_single_crossing_is_not_enough() -> None:
    supervisor = Supervisor(PLAN, target=0.9)
    assert all(supervisor.handle(evaluated(a)) == [] for a in (0.5, 0.95, 0.6, 0.7, 0.95))


def test_without_a_target_only_the_last_epoch_ends_the_run() -> None:
    supervisor = Supervisor(PLAN)
    assert supervisor.handle(evaluated(1.0)) == []
    assert supervisor.handle(EpochFinished(t=1.0, epoch=0, left=40)) == [SaveCheckpoint()]
    assert supervisor.handle(EpochFinished(t=2.0, epoch=1, left=0)) == [SaveCheckpoint(), Stop("epochs")]


def test_a_lost_worker_is_excluded_and_the_others_inherit_as_planned() -> None:
    supervisor = Supervisor(PLAN)
    assert supervisor.handle(NodeLost(t=1.0, node="b", reason="crashed")) == [Exclude("b", {"a": 30.0})]
    assert supervisor.handle(NodeReturned(t=2.0, node="b")) == [Admit("b", {"a": 30.0, "b": 10.0})]
    assert supervisor.handle(NodeReturned(t=2.0, node="b")) == []


def test_a_lost_server_is_waited_for_and_relaunched() -> None:
    supervisor = Supervisor(PLAN)
    assert supervisor.handle(NodeLost(t=1.0, node="ps-1", reason="crashed")) == []
    assert supervisor.handle(NodeReturned(t=3.0, node="ps-1")) == [Relaunch("ps-1", {"a": 30.0, "b": 10.0})]


def test_when_nobody_is_left_work_waits_for_whoever_returns() -> None:
    supervisor = Supervisor(PLAN)
    supervisor.handle(NodeLost(t=1.0, node="a", reason="crashed"))
    assert supervisor.handle(NodeLost(t=1.0, node="b", reason="crashed")) == [Exclude("b", {})]
    assert supervisor.handle(NodeReturned(t=2.0, node="b")) == [Admit("b", {"b": 10.0})]


def test_stop_on_failure_if_asked() -> None:
    supervisor = Supervisor(PLAN, on_failure="stop")
    assert supervisor.handle(NodeLost(t=1.0, node="a", reason="crashed")) == [Stop("a was lost", failed=True)]


def test_out_of_memory_makes_the_batch_smaller() -> None:
    assert Supervisor(PLAN).handle(OutOfMemory(t=1.0, node="a", batch=64, limit=20)) == [Rebatch("a", 20)]
