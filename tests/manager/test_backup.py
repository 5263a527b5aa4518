"""Backup and restore: consistent while the server writes, all or nothing, and no name leads out of the folder."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from furnished import BINARY, SAMPLES, furnish
from given import CONTINUUM, ended, endless, job, submit, until
from serving import Served, serving
from test_serve import CLEAN, LITTORAL

from littoral.errors import InputError
from littoral.manager.archive import Manifest
from littoral.manager.backup import make_backup
from littoral.manager.jobs import RunOptions
from littoral.manager.manager import Manager
from littoral.manager.parcels import Head, pack_samples
from littoral.manager.restore import restore_backup
from littoral.manager.tokens import Role


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a furnished manager, made by the command while it serves."""
    place = tmp_path_factory.mktemp("backup")
    with serving(place / "data") as served, served.client() as client:
        furnish(client)
        (place / "secrets.json").write_text(json.dumps(served.secrets))
        command = [*LITTORAL, "backup", "--data", str(place / "data"), "--out", str(place / "one.tar.gz"), "--json"]
        done = subprocess.run(command, env=CLEAN, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["files"] > 5
    return place / "one.tar.gz"


def test_a_restored_folder_serves_what_was_served(archive: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    data = tmp_path / "new" / "data"
    done = subprocess.run([*LITTORAL, "restore", str(archive), "--data", str(data)], env=CLEAN, capture_output=True)
    assert done.returncode == 0 and b"no data sets are in it" in done.stderr, done.stderr
    assert not (data / "client.json").exists()
    secrets = {Role(role): secret for role, secret in json.loads((archive.parent / "secrets.json").read_text()).items()}
    with serving(data, secrets=secrets) as served, served.client() as client:
        x = np.zeros((2, 1, 8, 8), dtype=np.float32)
        answer = client.post("/models/digits/predict", content=x.tobytes(), headers=BINARY)
        assert answer.status_code == 200 and answer.json()["version"] == 1
        assert client.get("/stores/digits").json()["kept"] == SAMPLES
        assert client.get("/runs/1").json()["state"] == "finished"
        assert client.get("/runs/1/journal", params={"limit": 1}).json()["items"][0]["event"] == "RunStarted"
    again = subprocess.run([*LITTORAL, "restore", str(archive), "--data", str(data)], env=CLEAN, capture_output=True)
    assert again.returncode == 2 and b"the folder is not empty" in again.stderr


def test_backups_made_while_samples_arrive_hold_every_batch_whole(served: Served, tmp_path: Path) -> None:
    """A thread ingests batches of seven; each copy has so many times seven, and its counts agree with its rows."""
    ending = threading.Event()
    with served.client() as client:
        furnish(client)

        def ingest() -> None:
            rng = np.random.default_rng(1)
            while not ending.is_set():
                x = rng.random((7, 1, 8, 8), dtype=np.float32)
                content = pack_samples(Head(actual=[1] * 7), x)
                assert client.post("/stores/digits/samples", content=content, headers=BINARY).status_code == 201

        thread = threading.Thread(target=ingest)
        thread.start()
        try:
            kept = []
            for number in range(4):
                before = served.manager.life.stores.get("digits").kept
                until(lambda before=before: served.manager.life.stores.get("digits").kept > before)  # type: ignore[misc]
                make_backup(served.manager.folder, tmp_path / f"{number}.tar.gz")
                restore_backup(tmp_path / f"{number}.tar.gz", tmp_path / f"data-{number}")
                connection = sqlite3.connect(tmp_path / f"data-{number}" / "littoral.db")
                (said,), (rows,) = connection.execute(
                    "SELECT kept FROM stores UNION ALL SELECT count(*) FROM samples"
                ).fetchall()
                connection.close()
                assert said == rows and (rows - SAMPLES) % 7 == 0
                kept.append(rows)
        finally:
            ending.set()
            thread.join()
    assert kept == sorted(kept) and kept[-1] > kept[0]


def test_a_run_that_was_at_work_goes_on_from_the_backup(tmp_path: Path) -> None:
    with serving(tmp_path / "old") as served, served.client() as client:
        submit(client, endless(), world="simulated", timing_only=True)
        until(lambda: (client.get("/runs/1").json()["progress"] or {}).get("epochs", 0) > 3)
        make_backup(tmp_path / "old", tmp_path / "one.tar.gz")
        secrets = served.secrets
    restore_backup(tmp_path / "one.tar.gz", tmp_path / "new")
    with serving(tmp_path / "new", secrets=secrets) as served, served.client() as client:
        (resumed,) = until(lambda: client.get("/events", params={"kind": "run.resumed"}).json()["items"])
        assert resumed["data"]["samples"] >= 2 * 240
        until(lambda: client.get("/runs/1").json()["progress"]["samples"] > resumed["data"]["samples"])


# -- what must not be restored ----------------------------------------------------------------------------------------


def refused(archive: Path, place: Path, words: str) -> None:
    """With these words, and nothing is left."""
    target = place / "restored"
    with pytest.raises(InputError, match=words):
        restore_backup(archive, target)
    assert not target.exists() and not list(place.glob(".littoral-restore-*"))


def same_inside(one: bytes, other: bytes) -> bool:
    """Whether a changed bit changes nothing, as those that fill up gzip's last byte."""
    try:
        return gzip.decompress(one) == gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return False


def test_a_damaged_archive_leaves_nothing(archive: Path, tmp_path: Path) -> None:
    """Cut anywhere, or with a bit changed anywhere, padding included."""
    content, dice = archive.read_bytes(), random.Random(0)
    bad = tmp_path / "bad.tar.gz"
    begin = content.index(0, 10) + 1 if content[3] & 8 else 10  # behind gzip's header: a name in it means nothing
    for _ in range(10):
        bad.write_bytes(content[: dice.randrange(len(content) - 8)])
        refused(bad, tmp_path, "nothing was restored")
    for _ in range(60):
        place = dice.randrange(begin, len(content))
        changed = content[:place] + bytes([content[place] ^ (1 << dice.randrange(8))]) + content[place + 1 :]
        if not same_inside(changed, content):
            bad.write_bytes(changed)
            refused(bad, tmp_path, "nothing was restored")
    bad.write_bytes(b"not a backup")
    refused(bad, tmp_path, "damaged")
    refused(tmp_path / "nothing.tar.gz", tmp_path, "cannot unpack")


Change = Callable[[dict[str, bytes], Manifest], dict[str, bytes]]


def rewritten(archive: Path, out: Path, change: Change) -> Path:
    """An archive whose files went through ``change``; the manifest stays the first one's unless it says otherwise."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            files[member.name] = file.read()
    manifest = msgspec.json.decode(files["manifest.json"], type=Manifest)
    with tarfile.open(out, "w:gz") as tar:
        for name, content in change(files, manifest).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "runs/../../evil", "client.json", "runs/./x", "runs\\..\\x"])
def test_names_that_lead_out_are_refused(archive: Path, tmp_path: Path, name: str) -> None:
    bad = rewritten(archive, tmp_path / "bad.tar.gz", lambda files, _: {name: b"evil", **files})
    refused(bad, tmp_path, "leads out of the data folder")
    assert not (tmp_path / "evil").exists() and not Path("/tmp/evil").exists()


def test_links_and_devices_are_refused(archive: Path, tmp_path: Path) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
        with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as tar:
            info = tarfile.TarInfo("runs/1")
            info.type, info.linkname = kind, "/etc"
            tar.addfile(info)
        refused(tmp_path / "bad.tar.gz", tmp_path, "has no place in a backup")


def test_what_is_not_what_was_packed_is_refused(archive: Path, tmp_path: Path) -> None:
    def weights(files: dict[str, bytes], manifest: Manifest) -> dict[str, bytes]:
        name = next(name for name in files if name.startswith("weights/"))
        return {**files, name: files[name][:-1] + b"x"}

    def missing(files: dict[str, bytes], manifest: Manifest) -> dict[str, bytes]:
        return {name: content for name, content in files.items() if not name.startswith("weights/")}

    def consistent_but_missing(files: dict[str, bytes], manifest: Manifest) -> dict[str, bytes]:
        kept = missing(files, manifest)
        told = msgspec.structs.replace(manifest, files={n: e for n, e in manifest.files.items() if n in kept})
        return {**kept, "manifest.json": msgspec.json.encode(told)}

    def newer(files: dict[str, bytes], manifest: Manifest) -> dict[str, bytes]:
        return {**files, "manifest.json": msgspec.json.encode(msgspec.structs.replace(manifest, format=2))}

    def without_manifest(files: dict[str, bytes], manifest: Manifest) -> dict[str, bytes]:
        return {name: content for name, content in files.items() if name != "manifest.json"}

    cases: list[tuple[Change, str]] = [
        (weights, "is not what was packed"), (missing, "is not what was packed"),
        (consistent_but_missing, "the weights digits/.* are missing"), (newer, "format 2"),
        (without_manifest, "no manifest"),
    ]  # fmt: skip
    for change, words in cases:
        refused(rewritten(archive, tmp_path / "bad.tar.gz", change), tmp_path, words)


def test_nothing_is_overwritten_and_nothing_half_written(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        restore_backup(archive, tmp_path / "full")
    with pytest.raises(InputError, match="such a file already"):
        make_backup(archive.parent / "data", archive)
    with pytest.raises(InputError, match="no manager's data here"):
        make_backup(tmp_path, tmp_path / "x.tar.gz")
    assert make_backup(archive.parent / "data", tmp_path / "stopped.tar.gz").files > 5, "also when nobody serves it"
    (tmp_path / "stopped.tar.gz").unlink()
    (tmp_path / "empty").mkdir()
    restored = restore_backup(archive, tmp_path / "empty")
    weights = next((tmp_path / "empty" / "weights" / "digits").iterdir())
    weights.unlink()
    with pytest.raises(InputError, match="is missing, which the database refers to"):
        make_backup(tmp_path / "empty", tmp_path / "y.tar.gz")
    assert restored.files > 5 and sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]


def test_a_job_finds_its_data_set_in_a_folder_of_another_name(tmp_path: Path) -> None:
    here, there, dice = tmp_path / "here", tmp_path / "there", np.random.default_rng(0)
    pictures = here / "datasets" / "pictures"
    for folder in (pictures, here / "drafts"):
        folder.mkdir(parents=True)
    for part, count in (("train", 40), ("test", 20)):
        images = dice.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        np.savez(pictures / f"{part}.npz", images=images, labels=np.arange(count, dtype=np.uint8) % 47)
    manager = Manager(here)
    task = {"name": "littoral.tasks.caltech101", "folder": "pictures", "model": "lenet", "width": 0.1}
    with manager.database.write() as connection:
        manager.continuums.put(connection, "bench", manager.continuums.check("bench", CONTINUUM))
        secrets = {Role.OPERATOR: manager.tokens.create(connection, "operator", Role.OPERATOR).secret}
    given = manager.jobs.check(job(task=task, target={"epochs": 1}))
    with manager.database.write() as connection:
        manager.jobs.submit(connection, given, RunOptions(world="simulated", timing_only=True))  # its files are counted
    manager.stop()
    make_backup(here, tmp_path / "one.tar.gz", datasets=True)
    shutil.rmtree(here)
    assert len(restore_backup(tmp_path / "one.tar.gz", there).notes) == 1
    with serving(there, secrets=secrets) as served, served.client() as client:
        assert ended(client, 1)["state"] == "finished", client.get("/runs/1/log").text
        assert client.get("/jobs/1").json()["document"]["task"]["folder"] == "pictures"
