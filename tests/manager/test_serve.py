"""``littoral serve`` as a process: its first token, its clients, SIGTERM, and SIGKILL in the middle of a run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from given import CONTINUUM, endless, job, until

from commands import here
from littoral import AsyncClient, Client, Infeasible, InputError, LittoralError
from littoral.manager import calls
from littoral.manager.address import read_address
from littoral.manager.answers import WAITS_S
from littoral.manager.calls import Call
from littoral.manager.jobs import RunOptions
from littoral.manager.manager import Manager
from littoral.manager.runs import RunState
from littoral.manager.server import Listening, serve

LITTORAL = [sys.executable, "-m", "littoral"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("LITTORAL_")}


@contextmanager
def process(folder: Path, *options: str, page: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A manager that serves a folder, without the page, which takes a while to import; killed if left by the block."""
    command = [*LITTORAL, "serve", "--data", str(folder), "--port", "0", *options, *([] if page else ["--no-page"])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=CLEAN) as server:
        assert server.stderr is not None
        said = ""
        try:
            while "serving" not in said:
                line = server.stderr.readline()
                assert line, said
                said += line
            server.said = said  # type: ignore[attr-defined]
            yield server
        finally:
            server.kill()


def client_of(folder: Path) -> Client:
    address = read_address(folder)
    assert address is not None
    return Client(address.url, address.token)


def littoral(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LITTORAL, *words, "--data", str(folder)], capture_output=True, text=True, env=CLEAN)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that finds nobody asks as often as ever, with less time between."""
    monkeypatch.setattr("littoral.client.WAITS_S", tuple(wait / 20 for wait in WAITS_S))


def test_the_command_line_from_first_start_to_a_finished_run(tmp_path: Path, impatient: None) -> None:
    data = tmp_path / "data"
    (tmp_path / "continuum.yaml").write_text(yaml.safe_dump({"name": "bench", **CONTINUUM}))
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job(continuum="continuum.yaml", target={"epochs": 1})))
    with process(data, page=True) as server:
        assert "shown this once: lit_" in server.said  # type: ignore[attr-defined]
        assert stat.S_IMODE((data / "client.json").stat().st_mode) == 0o600
        sent = littoral(data, "submit", str(tmp_path / "job.yaml"), "--world", "simulated", "--timing-only",
                        "--json")  # fmt: skip
        assert sent.returncode == 0, sent.stderr
        assert json.loads(sent.stdout)["run"]["number"] == 1
        watched = littoral(data, "watch", "1")
        assert watched.returncode == 0 and "finished, epochs, 100.0 %" in watched.stdout, watched
        assert json.loads(here("status", "--json", "--data", data).stdout)["runs"][0]["state"] == "finished"
        assert "ended: epochs" in here("logs", "1", "--data", data).stdout
        refused = here("stop", "1", "--data", data, check=False)
        assert refused.returncode == 2 and refused.stderr.startswith("littoral: run 1 is finished;")
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert here("status", "--data", data, check=False).returncode == 1
    assert here("status", "--data", tmp_path / "nothing", check=False).returncode == 2


def test_beyond_loopback_a_token_must_exist(tmp_path: Path) -> None:
    refused = littoral(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2 and "there is no token" in refused.stderr
    made = here("token", "create", "boss", "--role", "operator", "--lasts", "1 h", "--data", tmp_path)
    assert made.stdout.startswith("lit_")
    here("token", "revoke", "boss", "--data", tmp_path)
    assert "boss" in here("token", "list", "--data", tmp_path).stdout
    manager = Manager(tmp_path)
    with pytest.raises(InputError, match="there is no token"):
        serve(manager, Listening(host="0.0.0.0", port=0), print)
    manager.database.close()


def test_killed_in_the_middle_of_a_run_it_finishes_once(tmp_path: Path) -> None:
    """kill -9: the run's processes end by themselves, and the next manager goes on from the checkpoint."""
    small = {**endless(), "target": {"epochs": 60}}
    with process(tmp_path) as server:
        with client_of(tmp_path) as client:
            client.put_continuum("bench", CONTINUUM)
            call_key = client.submit(small).run.number
            until(lambda: (progress := client.run(call_key).progress) and progress.epochs > 3)
        family = psutil.Process(server.pid).children(recursive=True)
        assert family
        server.kill()
        server.wait()
    with process(tmp_path), client_of(tmp_path) as client:
        last = list(client.watch(1))[-1]
        assert (last.state, last.reason, last.attempts) == (RunState.FINISHED, "epochs", 2), client.log(1)
        assert client.result(1)["samples"] == 60 * 240
        kinds = [event.kind for event in client.events(subject="runs/1").items]
        assert kinds.count("run.finished") == 1 and kinds.count("run.resumed") == 1
        journal = (tmp_path / "runs" / "1" / "journal.jsonl").read_text().splitlines()
        assert sum('"event":"RunFinished"' in line for line in journal) == 1
        assert sum('"event":"RunStarted"' in line for line in journal) == 1
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_stopped_in_order_the_run_is_checkpointed_and_goes_on(tmp_path: Path) -> None:
    with process(tmp_path) as server:
        with client_of(tmp_path) as client:
            client.put_continuum("bench", CONTINUUM)
            client.submit(endless(), RunOptions(world="simulated", timing_only=True))
            until(lambda: (progress := client.run(1).progress) and progress.epochs > 2)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    with process(tmp_path), client_of(tmp_path) as client:
        run = until(lambda: (found := client.run(1)).attempts == 2 and found)
        assert run.state is RunState.RUNNING
        resumed = until(lambda: client.events(kind="run.resumed").items)[0]
        before = [one for one in client.events(kind="run.checkpointed").items if one.number < resumed.number]
        assert resumed.data["samples"] == before[-1].data["samples"] > 2 * 240
        assert client.stop(1).stop_asked
        assert list(client.watch(1))[-1].state is RunState.STOPPED


def test_clients_raise_what_the_library_raises_and_repeat_without_doing_twice(tmp_path: Path, impatient: None) -> None:
    async def asked(url: str, token: str) -> None:
        async with AsyncClient(url, token) as manager:
            submitted = await manager.submit(job(), RunOptions(world="simulated", timing_only=True))
            runs = [run async for run in manager.watch(submitted.run.number)]
            assert runs[-1].state is RunState.FINISHED
            told = [event.kind async for event in _until_finished(manager)]
            assert told[-1] == "run.finished"
            with pytest.raises(Infeasible, match="deadline"):
                await manager.plan(job(limits={"deadline": "1 ms"}))
            assert (await manager.devices(continuum="bench")).items[0].name == "hub"

    with process(tmp_path), client_of(tmp_path) as client:
        client.put_continuum("bench", CONTINUUM)
        address = read_address(tmp_path)
        assert address is not None
        asyncio.run(asked(address.url, address.token))
        with pytest.raises(InputError, match="there is no run"):
            client.run(99)
        with Client(address.url, "lit_no") as stranger, pytest.raises(InputError, match="token"):
            stranger.runs()
        call = calls.submit(job(), RunOptions(world="simulated", timing_only=True))
        assert client.do(call) == client.do(call)
        first = client.do(call)
        until(lambda: client.run(first.run.number).ended)
    with process(tmp_path), client_of(tmp_path) as client:
        client.do(Call(method="DELETE", path="/continuums/bench"))
        assert client.do(call) == first  # also across a restart, whatever has changed
        assert len(client.runs().items) == 2
    with client_of(tmp_path) as client, pytest.raises(LittoralError, match="no manager answers"):
        client.runs()


async def _until_finished(manager: AsyncClient) -> Any:
    async for event in manager.watch_events(after=0, kind="run."):
        yield event
        if event.kind == "run.finished":
            return


def test_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]  # fmt: skip
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    subprocess.run(asked, check=True, capture_output=True)
    data, secret = tmp_path / "data", tmp_path / "token"
    with process(data, "--certificate", str(certificate), "--key", str(key), "--token-file", str(secret)) as server:
        assert "lit_" not in server.said and stat.S_IMODE(secret.stat().st_mode) == 0o600  # type: ignore[attr-defined]
        address = read_address(data)
        assert address is not None and address.url.startswith("https://")
        with Client(address.url, secret.read_text().strip(), certificate=str(certificate)) as client:
            assert client.runs().items == []
        with Client(address.url, address.token) as trusting_nobody, pytest.raises(LittoralError, match="certificate"):
            trusting_nobody.runs()
        assert littoral(data, "status").returncode == 0
