"""The whole story: digits drift, the model decays, a trigger fires, an update is promoted, accuracy recovers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from freshness import Clock, Life, Stream, alive, ingest

from littoral.manager.database import Database
from littoral.manager.tables import MIGRATIONS


def serve_and_label(life: Life, stream: Stream, count: int, *, drifted: bool) -> float:
    """What a deployed model sees: predictions, whose truth arrives with them; how many were right."""
    x, y = stream.take(count, drifted=drifted)
    answer = life.cycle.serving.predict("digits", x)
    ingest(life.cycle.samples, "digits-store", x, y, answer.labels, answer.version)
    return sum(a == b for a, b in zip(answer.labels, y, strict=True)) / count


def begin(life: Life, stream: Stream, **training: object) -> None:
    life.model(**training)
    ingest(life.cycle.samples, "digits-store", *stream.take(800))
    life.update()


def trigger(life: Life, kind: str, **settings: object) -> int:
    with life.database.write() as connection:
        return life.cycle.watches.rows.create(connection, "digits", kind, settings, life.clock()).number


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("drift", {"detector": "adwin", "gather": 300}),
        ("accuracy-below", {"accuracy": 0.7, "window": 100}),
        ("expected-gain", {"usd_per_point_day": 1.0, "usd_per_hour": 5e6, "window": 100}),
    ],
)
def test_a_drifting_stream_is_answered_with_a_better_version(tmp_path: Path, kind: str, settings: object) -> None:
    stream = Stream()
    with alive(tmp_path) as life:
        begin(life, stream, window=400)
        id = trigger(life, kind, **settings)  # type: ignore[arg-type]
        accuracy = {"before": [], "drifted": [], "after": []}  # type: dict[str, list[float]]
        for _ in range(5):
            life.clock.now += 60
            accuracy["before"].append(serve_and_label(life, stream, 100, drifted=False))
            life.cycle.step(life.clock())
        assert len(life.cycle.updates.of_model("digits", 0, 10)) == 1, "a false alarm"
        for _ in range(20):
            life.clock.now += 60
            name = "drifted" if life.cycle.registry.get("digits").current == 1 else "after"
            accuracy[name].append(serve_and_label(life, stream, 100, drifted=True))
            life.cycle.step(life.clock())
            life.settle()
        update = life.cycle.updates.of_model("digits", 0, 10)[-2]
        assert (update.state, update.trigger) == ("promoted", id)
        means = {name: sum(values) / len(values) for name, values in accuracy.items()}
        assert means["before"] > 0.85 and means["drifted"] < 0.5
        assert sum(accuracy["after"][-5:]) / 5 > 0.65, accuracy  # 0.73 to 0.87 with other seeds, on other machines
        signal_ = life.cycle.watches.rows.signal(id, 0, 1000)
        fired = [point for point in signal_ if point.fired]
        assert fired and fired[0].reason == update.why and len(signal_) > len(fired)


def test_no_firing_is_lost_or_doubled_by_a_restart(tmp_path: Path) -> None:
    """The alarm comes while the manager is away: told the same outcomes, the trigger fires when it is back, once."""
    stream, clock = Stream(), Clock()
    with alive(tmp_path, clock) as life:
        begin(life, stream)
        trigger(life, "drift")
        clock.now += 1000
        serve_and_label(life, stream, 300, drifted=False)
        life.cycle.step(clock())
        serve_and_label(life, stream, 500, drifted=True)  # and the manager is gone before the next step
    for _ in range(3):
        with alive(tmp_path, clock) as life:
            life.cycle.watches.step(life.cycle.registry.get("digits"), clock())
            assert [u.state for u in life.cycle.updates.of_model("digits", 0, 10)] == ["waiting", "promoted"]


def test_an_alarm_is_followed_up_once_whatever_restarts(tmp_path: Path) -> None:
    """Another manager asks, and yet another one trains, for every batch. Most held-out samples are from before."""
    stream, clock, scores = Stream(), Clock(), []
    with alive(tmp_path, clock) as life:
        begin(life, stream, window=400)
        id = trigger(life, "drift", gather=100)
        serve_and_label(life, stream, 2000, drifted=False)
    for _ in range(8):
        clock.now += 60
        with alive(tmp_path, clock) as life:
            scores.append(serve_and_label(life, stream, 100, drifted=True))
            life.cycle.watches.step(life.cycle.registry.get("digits"), clock())
        with alive(tmp_path, clock) as life:
            life.settle()
            _, *asked = reversed(life.cycle.updates.of_model("digits", 0, 10))
            said = [point.reason for point in life.cycle.watches.rows.signal(id, 0, 100)]
    first, second = asked
    assert first.alarm is not None and 100 <= first.labelled - first.alarm < 300
    assert (second.follows, second.alarm, second.trigger) == (first.number, first.alarm, id)
    assert 500 <= second.labelled - first.alarm < 600  # a window of 400, and a fifth held out
    assert any("follow-up of update 2: 384 of 500 labels" in reason for reason in said), said
    assert said.count(second.why) == 1 and "follow-up" not in said[-1], said
    assert first.state == "promoted" and second.state in ("promoted", "refused"), second.reason  # the gate decides
    assert max(scores[:2]) < 0.3 and scores[-1] > 0.7, scores


def test_triggers_rest_after_a_refusal(tmp_path: Path) -> None:
    from littoral.manager.gate import Gate

    stream = Stream()
    with alive(tmp_path) as life:
        life.model(gate=Gate(least_samples=20, margin=0.9))
        ingest(life.cycle.samples, "digits-store", *stream.take(800))
        life.update()
        trigger(life, "count", samples=50, debounce_s=10, cool_down_s=500)
        began = []
        for _ in range(30):
            life.clock.now += 50
            serve_and_label(life, stream, 50, drifted=False)
            before = len(life.cycle.updates.of_model("digits", 0, 100))
            life.cycle.step(life.clock())
            life.settle()
            if len(life.cycle.updates.of_model("digits", 0, 100)) > before:
                began.append(life.clock())
        assert len(began) >= 2 and all(b - a >= 500 for a, b in pairwise(began))
        reasons = [point.reason for rows in life.cycle.watches.rows.all()
                   for point in life.cycle.watches.rows.signal(rows.number, 0, 100)]  # fmt: skip
        assert any("but the last update promoted nothing" in reason for reason in reasons)


LIVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from freshness import Clock, Stream, alive, ingest
stream = Stream(int(sys.argv[3]))
with alive(Path(sys.argv[1]), Clock(1e6 + 1e4 * int(sys.argv[3]))) as life:
    life.cycle.serving.kind("digits")
    print("ready", flush=True)
    while True:
        x, y = stream.take(60, drifted=sys.argv[3] != "0")
        answer = life.cycle.serving.predict("digits", x)
        ingest(life.cycle.samples, "digits-store", x, y, answer.labels, answer.version)
        life.clock.now += 1
        life.cycle.step(life.clock())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings"), [("count", {"samples": 120}), ("drift", {"gather": 0, "settings": {"delta": 0.2}})]
)
def test_killed_at_random_moments_no_update_runs_twice_and_nothing_is_lost(
    tmp_path: Path, kind: str, settings: dict[str, object]
) -> None:
    dice, quick = random.Random(3), {"target": {"epochs": 1}, "strategy": "allreduce", "planner": "proportional"}
    with alive(tmp_path) as life:
        begin(life, Stream(), job=quick, window=200)
        trigger(life, kind, debounce_s=0, cool_down_s=0, **settings)
    for turn in range(3):
        here = str(Path(__file__).parent)
        process = subprocess.Popen(
            [sys.executable, "-c", LIVE, str(tmp_path), here, str(turn)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(dice.uniform(0.5, 1.2))
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
    with alive(tmp_path, Clock(2e6)) as life:
        life.settle()
    database = Database(tmp_path, MIGRATIONS)
    with database.read() as connection:
        updates = connection.execute("SELECT * FROM updates ORDER BY number").fetchall()
        versions = connection.execute("SELECT number, run FROM versions ORDER BY number").fetchall()
        received, labelled = connection.execute("SELECT received, labelled FROM stores").fetchone()
        kept = connection.execute("SELECT count(*) FROM samples").fetchone()[0]
        fired = connection.execute("SELECT count(*) FROM signals WHERE fired").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database.close()
    assert len(updates) >= (4 if kind == "count" else 3), "too few to tell"
    assert all(row["state"] in ("promoted", "refused") for row in updates), [tuple(row) for row in updates]
    assert [row["version"] for row in updates] == [row["number"] for row in versions]
    assert [row["run"] for row in versions] == [f"update-{row['number']}-0" for row in updates]
    assert fired == len(updates) - 1 and received == labelled == kept
    followed = {row["number"]: row for row in updates if row["follows"] is not None}
    alarms = {row["number"]: row["alarm"] for row in updates}
    assert len({row["follows"] for row in followed.values()}) == len(followed) and bool(followed) == (kind == "drift")
    assert all(row["labelled"] - alarms[row["follows"]] >= 250 for row in followed.values())
    marks = [row["labelled"] for row in updates]
    assert kind == "drift" or all(later - earlier >= 120 for earlier, later in pairwise(marks[1:]))
