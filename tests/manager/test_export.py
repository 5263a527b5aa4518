"""Exports, read back by decoders written from the formats' specifications."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_serve import CLEAN, LITTORAL

from littoral.errors import InputError
from littoral.events import Computed, DeadlineMissed, EpochFinished, Evaluated, Event, Resumed, RunFinished, Sent, Used
from littoral.journal import Journal, read_journal
from littoral.reports.curves import Point, plain_name, read_curves, thinned
from littoral.reports.mlflow import write_mlflow
from littoral.reports.tensorboard import write_tensorboard
from littoral.run import Options, run_job
from littoral.testing import small_job


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run, small and in virtual time."""
    folder = tmp_path_factory.mktemp("runs") / "small-1"
    run_job(small_job(epochs=3), folder, Options(reference=False))
    return folder


# -- the specification's decoder: TFRecord, CRC-32C bit by bit, protocol buffers ----------------------------------


def crc(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ 0x82F63B78 if remainder & 1 else remainder >> 1
    value = remainder ^ 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(content: bytes) -> Iterator[bytes]:
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        assert struct.unpack("<I", content[8:12])[0] == crc(content[:8])
        data, checksum = content[12 : 12 + size], content[12 + size : 16 + size]
        assert len(data) == size and struct.unpack("<I", checksum)[0] == crc(data)
        yield data
        content = content[16 + size :]


def fields(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    while data:
        key, data = varint(data)
        match key & 7:
            case 0:
                value, data = varint(data)
            case 1:
                value, data = struct.unpack("<d", data[:8])[0], data[8:]
            case 5:
                value, data = struct.unpack("<f", data[:4])[0], data[4:]
            case 2:
                size, data = varint(data)
                value, data = data[:size], data[size:]
                assert len(value) == size
            case kind:
                raise AssertionError(f"wire type {kind}")
        found.setdefault(key >> 3, []).append(value)
    return found


def varint(data: bytes) -> tuple[int, bytes]:
    value = shift = 0
    for place, byte in enumerate(data):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, data[place + 1 :]
    raise AssertionError("cut short")


def scalars(path: Path) -> dict[str, list[tuple[float, int, float]]]:
    found: dict[str, list[tuple[float, int, float]]] = {}
    first, *rest = [fields(record) for record in records(path.read_bytes())]
    assert first[3] == [b"brain.Event:2"]
    for event in rest:
        ((value,),) = [fields(summary)[1] for summary in event[5]]
        told = fields(value)
        if 2 in told:
            found.setdefault(told[1][0].decode(), []).append((event[1][0], event[2][0], told[2][0]))
        else:
            tensor, metadata = fields(told[8][0]), fields(told[9][0])
            assert tensor[1] == [7] and fields(metadata[1][0])[1] == [b"text"] and tensor[8][0].startswith(b"| setting")
    return found


def test_tensorboard_holds_what_the_journal_tells(run: Path, tmp_path: Path) -> None:
    path = write_tensorboard(run, tmp_path)
    assert path.parent == tmp_path / "small-1" and path.name.startswith("events.out.tfevents.")
    found, told = (
        scalars(path),
        [event for event in read_journal(run / "journal.jsonl") if isinstance(event, Evaluated)],
    )
    assert [(step, value) for _, step, value in found["accuracy"]] == [
        (event.samples, pytest.approx(event.accuracy)) for event in told
    ]
    times = [wall for wall, _, _ in found["accuracy"]]
    assert times[-1] - times[0] == pytest.approx(told[-1].t - told[0].t, abs=1e-3) and times[0] > 1e9
    result = json.loads((run / "result.json").read_text())
    assert found["result/time_s"][0][2] == pytest.approx(result["time_s"])
    assert found["bytes_sent"][-1][2] == pytest.approx(result["bytes_sent"], rel=0.2)
    with pytest.raises(InputError, match="there is something already"):
        write_tensorboard(run, tmp_path)


def test_the_checksum_is_the_published_one() -> None:
    """The check value of CRC-32C, and the mask, by the test's own code."""
    assert crc(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_mlflow_holds_what_the_journal_tells(run: Path, tmp_path: Path) -> None:
    folder = write_mlflow(run, tmp_path)
    experiment, meta = (
        yaml.safe_load((folder.parent / "meta.yaml").read_text()),
        yaml.safe_load((folder / "meta.yaml").read_text()),
    )
    assert experiment["name"] == "small" and experiment["experiment_id"] == folder.parent.name == meta["experiment_id"]
    assert folder.parent.name.isdigit() and (meta["run_id"], meta["status"]) == (folder.name, 3)
    assert meta["start_time"] <= meta["end_time"] and len(folder.name) == 32
    told = [event for event in read_journal(run / "journal.jsonl") if isinstance(event, Evaluated)]
    rows = [line.split(" ") for line in (folder / "metrics" / "accuracy").read_text().splitlines()]
    assert [(float(value), int(step)) for _, value, step in rows] == [(e.accuracy, e.samples) for e in told]
    assert meta["start_time"] <= int(rows[0][0]) <= meta["end_time"]
    assert (folder / "params" / "strategy").read_text() == "allreduce"
    assert (folder / "tags" / "mlflow.runName").read_text() == "small-1"
    assert (folder / "artifacts" / "plan.json").read_bytes() == (run / "plan.json").read_bytes()
    with pytest.raises(InputError, match="exported here already"):
        write_mlflow(run, tmp_path)


def test_the_command_and_its_refusals(run: Path, tmp_path: Path) -> None:
    def export(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*LITTORAL, "export", *words], env=CLEAN, capture_output=True, text=True)

    done = export(str(run), "--to", "mlflow", "--out", str(tmp_path / "mlruns"), "--json")
    assert done.returncode == 0 and Path(json.loads(done.stdout)["written"], "meta.yaml").exists(), done.stderr
    refused = export(str(tmp_path), "--to", "tensorbord", "--out", str(tmp_path))
    assert refused.returncode == 2 and "tensorboard" in refused.stderr
    with pytest.raises(InputError, match="cannot read the journal"):
        write_tensorboard(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_resumption_made_void_is_left_out(run: Path, tmp_path: Path) -> None:
    started = next(read_journal(run / "journal.jsonl"))
    events: list[Event] = [
        started, Used(1.0, "n", 10, ()), Sent(1.5, "a", "b", "Push", 100, 1.0, True), Evaluated(2.0, 10, 0.5, 1.0),
        Used(3.0, "n", 10, ()), Evaluated(4.0, 20, 0.9, 0.1), Resumed(2.0, 2.0, 10), Used(5.0, "n", 10, ()),
        Computed(5.5, "n", 5.0, 5, 0, 0.7), DeadlineMissed(5.6, "camera", "n", None), EpochFinished(5.8, 0, 0),
        Evaluated(6.0, 20, 0.6, 0.8), RunFinished(6.0, "epochs"),
    ]  # fmt: skip
    with Journal(tmp_path / "journal.jsonl") as journal:
        for event in events:
            journal.write(event)
    told = read_curves(tmp_path)
    assert told.curves["accuracy"] == [Point(2.0, 10, 0.5), Point(6.0, 20, 0.6)]
    assert told.curves["samples_per_s"] == [Point(2.0, 10, 5.0), Point(6.0, 20, 2.5)]
    assert told.curves["training_loss/n"] == [Point(5.5, 20, 0.7)] and told.curves["epochs"] == [Point(5.8, 20, 1.0)]
    assert told.curves["deadlines_missed"] == [Point(5.6, 20, 1.0)] and told.reason == ""


def test_many_points_become_means_and_odd_names_plain_ones() -> None:
    points = [Point(float(i), i, float(i)) for i in range(2501)]
    few = thinned(points, 1000)
    assert len(few) == 834 and few[0] == Point(2.0, 2, 1.0) and few[-1] == Point(2500.0, 2500, 2499.5)
    assert thinned(points[:1000]) == points[:1000]
    assert plain_name("a/../../etc/x:y") == "a/_./_./etc/x_y"
