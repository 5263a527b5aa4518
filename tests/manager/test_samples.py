"""Samples: accepted once, checked, held out by their ids, kept within bounds, on the disk when acknowledged."""

from __future__ import annotations

import base64
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.manager.database import Database
from littoral.manager.inputs import Kind
from littoral.manager.refusals import Conflict, Unknown
from littoral.manager.sample_rows import Batch, held_out
from littoral.manager.samples import Samples
from littoral.manager.stores import Retention
from littoral.manager.tables import MIGRATIONS
from littoral.manager.writer import Busy, Writer

KIND = Kind(shape=(2, 3), classes=4)
X = np.arange(60, dtype=np.float32).reshape(10, 2, 3)


@pytest.fixture
def samples(tmp_path: Path) -> Iterator[Samples]:
    database = Database(tmp_path, MIGRATIONS)
    samples = Samples(database, lambda: 1000.0)
    with database.write() as connection:
        samples.stores.create(connection, "cam", KIND, Retention(), 0.0)
    yield samples
    samples.close()
    database.close()


def batch(count: int = 3, **columns: object) -> Batch:
    return Batch(inputs=X[:count], **columns)  # type: ignore[arg-type]


def test_a_repeated_id_is_accepted_once(samples: Samples) -> None:
    first = samples.add("cam", batch(ids=["a", "b", "b"]))
    assert (first.accepted, first.repeated, first.ids) == (2, 1, ["a", "b", "b"])
    again = samples.add("cam", batch(ids=["b", "c", "a"]))
    assert (again.accepted, again.repeated) == (1, 2)
    assert samples.stores.get("cam").kept == 3


def test_who_gives_no_id_is_given_one(samples: Samples) -> None:
    added = samples.add("cam", batch(ids=[None, "mine", None]))
    assert len(set(added.ids)) == 3 and added.ids[1] == "mine"


def test_a_label_may_come_later_and_be_corrected(samples: Samples) -> None:
    samples.add("cam", batch(ids=["a", "b", "c"], predicted=[1, 2, 3], versions=[7, 7, 7]))
    assert samples.outcomes("cam", 0, 100) == []
    assert samples.label("cam", [("b", 2), ("gone", 1), ("a", 0)]).result() == ["gone"]
    told = samples.outcomes("cam", 0, 100)
    assert [(o.labelled, o.right, o.version) for o in told] == [(1, True, 7), (2, False, 7)]
    samples.label("cam", [("a", 1)]).result()
    assert [o.right for o in samples.outcomes("cam", 1, 100)] == [True]
    assert samples.stores.counts("cam")["accuracy"] == 1.0


def test_labelled_samples_come_back_as_they_were(samples: Samples) -> None:
    samples.add("cam", batch(10, ids=[f"s{i}" for i in range(10)], actual=[i % 4 for i in range(10)]))
    parts = [samples.labelled("cam", held_out=aside, upto=10, most=100) for aside in (False, True)]
    assert sum(len(x) for x, _ in parts) == 10 and all(len(x) for x, _ in parts)
    for aside, (x, y) in zip((False, True), parts, strict=True):
        index = [i for i in range(10) if held_out("cam", f"s{i}", 0.2) is aside]
        assert np.array_equal(x, X[index]) and list(y) == [i % 4 for i in index]
    newest, _ = samples.labelled("cam", held_out=False, upto=10, most=1)
    assert np.array_equal(newest[0], parts[0][0][-1])


def test_older_ones_are_drawn_from_before_the_window(samples: Samples) -> None:
    samples.add("cam", batch(10, ids=[f"s{i}" for i in range(10)], actual=[0] * 10))
    x, _ = samples.labelled("cam", held_out=False, upto=10, most=100)
    drawn, _ = samples.older("cam", upto=10, beyond=3, most=4, dice=random.Random(0))
    assert len(drawn) == 4 and all(any(np.array_equal(one, old) for old in x[:-3]) for one in drawn)
    assert len(samples.older("cam", upto=10, beyond=3, most=400, dice=random.Random(0))[0]) == len(x) - 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"inputs": X.reshape(10, 3, 2)}, r"inputs of float32 \(3, 2\); give float32 of shape \(2, 3\)"),
        ({"inputs": X.astype(np.float64)}, "inputs of float64"),
        ({"inputs": np.where(X == 25, np.nan, X)}, "sample 4: a value is not finite"),
        ({"inputs": np.where(X == 59, np.inf, X)}, "sample 9: a value is not finite"),
        ({"inputs": X[:0]}, "inputs of float32"),
        ({"predicted": [0, 4, 0]}, "sample 1: the predicted label is 4; give a whole number in 0..3"),
        ({"actual": [0, 1, -1]}, "sample 2: the actual label is -1"),
        ({"actual": [0, True, 1]}, "sample 1: the actual label is True"),
        ({"actual": [0, 1.0, 1]}, "sample 1: the actual label is 1.0"),
        ({"ids": ["a", "b c", "d"]}, "sample 1: the id 'b c'"),
        ({"ids": ["a", "", "d"]}, "sample 1: the id ''"),
        ({"ids": ["a", "b"]}, "2 ids for 3 inputs"),
        ({"times": [1.0, float("nan"), 2.0]}, "sample 1: the time nan"),
        ({"versions": [0, 1, 2]}, "sample 0: the version 0"),
    ],
)
def test_bad_samples_are_refused_whole_and_named(samples: Samples, columns: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        samples.add("cam", Batch(**{"inputs": X[:3], **columns}))  # type: ignore[arg-type]
    assert samples.stores.get("cam").received == 0


def test_unknown_stores_and_doubles_are_refused(samples: Samples, tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="there is no store 'can'; did you mean 'cam'"):
        samples.add("can", batch())
    with pytest.raises(Conflict, match="already"), samples._database.write() as connection:
        samples.stores.create(connection, "cam", KIND, Retention(), 0.0)


def test_json_inputs_are_lists_or_base64() -> None:
    text = base64.b64encode(X[1].tobytes()).decode()
    assert np.array_equal(KIND.from_json([X[0].tolist(), text]), X[:2])
    assert np.array_equal(KIND.from_bytes(X.tobytes()), X)
    pixels = Kind(shape=(2,), classes=2, dtype="uint8", mean=0.5, deviation=0.5)
    assert np.allclose(pixels.scaled(pixels.from_json([[0, 255]])), [[-1, 1]])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("####", "not base64"),
        (base64.b64encode(b"123").decode(), "3 bytes"),
        ([[1, 2], [3, 4]], r"shape \(2, 2\)"),
        ([[1, 2, 3], [4, 5]], "no list of numbers"),
        ([["a", 2, 3], [4, 5, 6]], "no list of numbers"),
        ([[None, 2, 3], [4, 5, 6]], "no list of numbers"),
        ([[1e39, 2, 3], [4, 5, 6]], "not finite"),
        ({"a": 1}, "no list of numbers"),
        (3, r"shape \(\)"),
        (None, "no list of numbers"),
        (10**400, "no list of numbers"),
    ],
)
def test_bad_json_inputs_are_named(value: object, said: str) -> None:
    with pytest.raises(InputError, match=f"sample 1: .*{said}"):
        KIND.from_json([X[0].tolist(), value])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=12))
def test_whatever_arrives_is_refused_or_right(value: object) -> None:
    try:
        found = KIND.from_json([value])
    except InputError:
        return
    assert found.shape == (1, 2, 3) and np.isfinite(found).all()


def test_the_file_stays_bounded(tmp_path: Path) -> None:
    """Ten times what is kept passes through, and the file is as large as after twice."""
    database = Database(tmp_path, MIGRATIONS)
    samples = Samples(database, time.time)
    with database.write() as connection:
        samples.stores.create(connection, "few", KIND, Retention(most_samples=500), 0.0)
        samples.stores.create(connection, "light", KIND, Retention(most_bytes=150_000), 0.0)
    sizes = []
    for turn in range(100):
        for store in ("few", "light"):
            samples.add(store, Batch(inputs=np.tile(X, (10, 1, 1)), ids=[f"{turn}-{i}" for i in range(100)]))
        with database.read() as connection:
            sizes.append(connection.execute("PRAGMA page_count").fetchone()[0])
    few, light = samples.stores.get("few"), samples.stores.get("light")
    assert few.kept == 500 and few.received == 10_000
    assert light.bytes <= 150_000 and light.kept > 500
    with database.read() as connection:
        for store in (few, light):
            row = connection.execute(
                "SELECT count(*) AS kept, sum(weight) AS bytes FROM samples WHERE store = ?", (store.name,)
            ).fetchone()
            assert (row["kept"], row["bytes"]) == (store.kept, store.bytes)
    samples.close()
    database.close()
    assert sizes[-1] <= 1.1 * sizes[19], sizes[::10]


def test_singles_from_many_threads_share_flushes(samples: Samples) -> None:
    def send(who: int) -> None:
        for i in range(25):
            samples.add("cam", Batch(inputs=X[:1], ids=[f"{who}-{i}"]))

    threads = [threading.Thread(target=send, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples.stores.get("cam").received == 200


def test_a_bad_act_does_not_spoil_its_neighbours(tmp_path: Path) -> None:
    database = Database(tmp_path, [("t", "CREATE TABLE t (v INTEGER PRIMARY KEY)")])
    writer, gate = Writer(database), threading.Event()

    def put(value: int) -> object:
        return lambda connection: connection.execute("INSERT INTO t VALUES (?)", (value,))

    blocked = writer.submit(lambda connection: gate.wait(10), 1)
    futures = [writer.submit(put(value), 1) for value in (1, 2, 1, 3)]  # type: ignore[arg-type]
    gate.set()
    assert [future.exception() is None for future in (blocked, *futures)] == [True, True, True, False, True]
    writer.close()
    with pytest.raises(Busy):
        writer.submit(lambda connection: None, 1)
    with database.read() as connection:
        assert [row["v"] for row in connection.execute("SELECT v FROM t ORDER BY v")] == [1, 2, 3]
    database.close()


def test_too_much_is_refused_and_not_kept_waiting(tmp_path: Path) -> None:
    database = Database(tmp_path, [])
    writer, gate = Writer(database), threading.Event()
    held = writer.submit(lambda connection: gate.wait(10), 50_000)
    with pytest.raises(Busy, match="50000 samples wait"):
        writer.submit(lambda connection: None, 1)
    gate.set()
    assert held.result()
    writer.close()
    database.close()


INGEST = """
import sys, threading, time
from pathlib import Path
import numpy as np
from littoral.manager.database import Database
from littoral.manager.inputs import Kind
from littoral.manager.sample_rows import Batch
from littoral.manager.samples import Samples
from littoral.manager.stores import Retention
from littoral.manager.tables import MIGRATIONS
database = Database(Path(sys.argv[1]), MIGRATIONS)
samples = Samples(database, time.time)
try:
    with database.write() as connection:
        samples.stores.create(connection, "cam", Kind(shape=(2, 3), classes=4), Retention(), 0.0)
except Exception:
    pass
lock = threading.Lock()
def send(who):
    for turn in range(10**6):
        ids = [f"{sys.argv[2]}-{who}-{turn}-{i}" for i in range(1 + 7 * (who % 2))]
        samples.add("cam", Batch(inputs=np.zeros((len(ids), 2, 3), np.float32), ids=ids, actual=[1] * len(ids)))
        with lock:
            print(*ids, flush=True)
threads = [threading.Thread(target=send, args=(who,)) for who in range(4)]
for thread in threads: thread.start()
"""


def test_killed_while_ingesting_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    dice, told = random.Random(0), set()
    for life in range(4):
        command = [sys.executable, "-c", INGEST, str(tmp_path), str(life)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        deadline = time.monotonic() + dice.uniform(0.02, 0.4)
        while time.monotonic() < deadline:
            lines.append(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        lines += [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.stdout.close()
        process.wait()
        told |= {id for line in lines for id in line.split()}
    database = Database(tmp_path, MIGRATIONS)
    with database.read() as connection:
        found = {row["id"] for row in connection.execute("SELECT id FROM samples WHERE store = 'cam'")}
        store = connection.execute("SELECT received, kept, labelled FROM stores").fetchone()
        places = [row["labelled"] for row in connection.execute("SELECT labelled FROM samples ORDER BY labelled")]
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database.close()
    assert len(told) > 50 and told <= found
    assert tuple(store) == (len(found),) * 3 and places == list(range(1, len(found) + 1))
