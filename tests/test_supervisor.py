"""The supervisor is pure: feed it events, compare what it says."""

from __future__ import annotations

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, Restart, SaveCheckpoint, Stop
from littoral.events import EpochFinished, Evaluated, NodeLost, NodeReturned, OutOfMemory, Resumed, RunFinished
from littoral.planning.plan import Plan, Prediction, Server, Worker
from littoral.strikes import Strikes
from littoral.supervisor import NOBODY, Supervisor

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
    assert answers == [[], [], [SaveCheckpoint(), Stop("target")], []]


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


def test_the_old_word_for_elastic_is_understood() -> None:
    for word in ("continue", "elastic"):
        supervisor = Supervisor(PLAN, on_failure=word)
        assert supervisor.handle(NodeLost(t=1.0, node="b", reason="crashed")) == [Exclude("b", {"a": 30.0})]


def test_nodes_it_does_not_plan_with_are_none_of_its_business() -> None:
    """A store, for which its readers wait; or a loss that is told twice."""
    for word in ("elastic", "deepedge", "stop"):
        supervisor = Supervisor(PLAN, on_failure=word)
        assert supervisor.handle(NodeLost(t=1.0, node="disk", reason="crashed")) == []
        assert supervisor.handle(NodeReturned(t=2.0, node="disk")) == []
    supervisor = Supervisor(PLAN, on_failure="deepedge")
    assert [len(lose(supervisor, "a")) for _ in range(3)] == [1, 0, 0]
    assert supervisor.strikes.count("a") == 1


# -- deepedge ---------------------------------------------------------------------------------------------------

BOTH = {"a": 30.0, "b": 10.0}


def lose(supervisor: Supervisor, node: str) -> list[Command]:
    return supervisor.handle(NodeLost(t=1.0, node=node, reason="crashed"))


def bring(supervisor: Supervisor, node: str) -> list[Command]:
    return supervisor.handle(NodeReturned(t=2.0, node=node))


def test_deepedge_kills_all_and_begins_again_with_those_who_are_there() -> None:
    supervisor = Supervisor(PLAN, on_failure="deepedge")
    assert supervisor.begin() == []
    assert lose(supervisor, "b") == [Restart({"a": 30.0})]
    assert bring(supervisor, "b") == [Admit("b", BOTH)]
    assert lose(supervisor, "ps-1") == [Restart(BOTH)]
    assert bring(supervisor, "ps-1") == [Restart(BOTH)]
    assert lose(supervisor, "a") == [Restart({"b": 10.0})]
    assert lose(supervisor, "b") == [Restart({})]
    assert [supervisor.strikes.count(name) for name in ("a", "b", "ps-1")] == [1, 2, 1]


def test_deepedge_leaves_a_worker_out_after_three_strikes() -> None:
    supervisor = Supervisor(PLAN, on_failure="deepedge")
    for _ in range(2):
        lose(supervisor, "b")
        assert bring(supervisor, "b") == [Admit("b", BOTH)]
    assert lose(supervisor, "b") == [Restart({"a": 30.0})]
    assert bring(supervisor, "b") == []
    assert lose(supervisor, "b") == []


def test_a_server_is_needed_however_often_it_fails() -> None:
    supervisor = Supervisor(PLAN, on_failure="deepedge")
    for _ in range(5):
        assert lose(supervisor, "ps-1") == bring(supervisor, "ps-1") == [Restart(BOTH)]


def test_strikes_of_earlier_runs_exclude_before_work_starts() -> None:
    strikes = Strikes().begin_run().struck("b").struck("b").struck("b").begin_run()
    supervisor = Supervisor(PLAN, on_failure="deepedge", strikes=strikes)
    assert supervisor.begin() == [Exclude("b", {"a": 30.0})]
    assert bring(supervisor, "b") == lose(supervisor, "b") == []
    assert Supervisor(PLAN, on_failure="elastic", strikes=strikes).begin() == []


def test_when_strikes_exclude_everybody_the_run_ends_and_says_so() -> None:
    strikes = Strikes().begin_run().struck("b").struck("b").struck("b").struck("a").struck("a")
    supervisor = Supervisor(PLAN, on_failure="deepedge", strikes=strikes)
    supervisor.begin()
    assert lose(supervisor, "a") == [Stop(NOBODY, failed=True)]
    later = Supervisor(PLAN, on_failure="deepedge", strikes=supervisor.strikes.begin_run())
    assert later.begin() == [Stop(NOBODY, failed=True)]


def test_a_good_end_forgives_those_who_were_not_lost() -> None:
    strikes = Strikes().begin_run().struck("a").struck("b").struck("ps-1").begin_run()
    supervisor = Supervisor(PLAN, on_failure="deepedge", strikes=strikes)
    lose(supervisor, "b")
    bring(supervisor, "b")
    supervisor.handle(Resumed(t=3.0, since=0.0, samples=0))
    supervisor.handle(EpochFinished(t=9.0, epoch=1, left=0))
    supervisor.handle(RunFinished(t=9.0, reason="epochs"))
    assert [supervisor.strikes.count(name) for name in ("a", "b", "ps-1")] == [0, 2, 0]


def test_a_bad_end_forgives_nobody_and_other_policies_leave_strikes_alone() -> None:
    strikes = Strikes().begin_run().struck("a").begin_run()
    for policy in ("elastic", "stop"):
        supervisor = Supervisor(PLAN, on_failure=policy, strikes=strikes)
        lose(supervisor, "b")
        supervisor.handle(EpochFinished(t=9.0, epoch=1, left=0))
        assert supervisor.strikes == strikes


def test_what_was_learned_is_void_once_everybody_goes_back() -> None:
    """News of an epoch may already be under way when a rollback is ordered; it must not end the run."""
    for policy, node in (("elastic", "ps-1"), ("deepedge", "ps-1"), ("deepedge", "a")):
        supervisor = Supervisor(PLAN, on_failure=policy, target=0.5)
        lose(supervisor, node)
        bring(supervisor, node)
        assert supervisor.handle(EpochFinished(t=2.0, epoch=1, left=0)) == []
        assert [supervisor.handle(evaluated(0.9)) for _ in range(3)] == [[], [], []]
        supervisor.handle(Resumed(t=2.0, since=1.0, samples=40))
        assert supervisor.handle(EpochFinished(t=3.0, epoch=0, left=40)) == [SaveCheckpoint()]


def test_a_run_that_was_done_before_it_was_resumed_only_ends() -> None:
    supervisor = Supervisor(PLAN)
    supervisor.recall(EpochFinished(t=1.0, epoch=1, left=0))
    assert supervisor.begin() == [Stop("epochs")]
    again = Supervisor(PLAN)
    for event in (EpochFinished(t=1.0, epoch=1, left=0), Resumed(t=1.2, since=0.5, samples=3)):
        again.recall(event)
    assert again.begin() == []
