"""The page that takes a newcomer to a promoted update: a shell runs its commands, as they are, in their order."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "first-update.md"
INSTALL, *BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def test_a_newcomer_gets_to_a_promoted_update(tmp_path: Path) -> None:
    """All but the installation, whose packages are there already."""
    began = time.monotonic()
    done = _shell("".join(BLOCKS), tmp_path, _environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr + _log(tmp_path)
    print(f"{time.monotonic() - began:.0f} s from littoral serve to the rollback")
    told = done.stdout
    assert "update 1 of model digits: promoted, version 1" in told, told
    assert "update 2 of model digits: promoted, version 2" in told, told
    assert re.search(r"^1 +retired .*\n2 +current ", told, re.M), told
    before, after = (int(right) for right in re.findall(r"^(\d+) of \d+ right$", told, re.M))
    assert before > 0.9 * 800 and after > 0.8 * 997, told
    assert json.loads(next(line for line in told.splitlines() if line.startswith('{"model"')))["version"] == 2
    assert "model digits serves version 1: rolled back from version 2" in told
    assert re.search(r"^digits +littoral.tasks.digits +digits +1$", told, re.M), told


def test_the_installation_names_what_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"'\.\[(.+)\]'", INSTALL)
    assert set(named.split(",")) <= extras.keys()
    assert "torch==2.13.0" in (ROOT / "Makefile").read_text() and "torch==2.13.0" in INSTALL


@pytest.mark.skipif("LITTORAL_INSTALL" not in os.environ, reason="downloads for minutes: set LITTORAL_INSTALL=1")
def test_from_pip_install_in_under_ten_minutes(tmp_path: Path) -> None:
    """The whole page, in a checkout of its own."""
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "checkout"], check=True)
    environment = {name: os.environ[name] for name in os.environ if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    began = time.monotonic()
    done = _shell(INSTALL + "".join(BLOCKS), tmp_path / "checkout", {**environment, "PORT": str(_free_port())})
    spent = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    assert "update 2 of model digits: promoted, version 2" in done.stdout
    print(f"{spent:.0f} s from pip install to the rollback")
    assert spent < 600


def _shell(commands: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Each command must succeed; what a failed one leaves running is ended."""
    script = f"set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}"
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=580
    )


def _environment(folder: Path) -> dict[str, str]:
    """With a command ``littoral`` that is this one, a port of its own, and this Python."""
    tools = folder / "tools"
    tools.mkdir()
    for name, start in (
        ("littoral", f'exec "{sys.executable}" -m littoral "$@"'),
        ("python", f'exec "{sys.executable}" "$@"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{start}\n")
        (tools / name).chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LITTORAL_")}
    return {**plain, "PATH": f"{tools}:{os.environ['PATH']}", "PORT": str(_free_port()),
            "PYTHONPATH": str(ROOT / "src")}  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


def _log(folder: Path) -> str:
    log = folder / "first-update" / "serve.log"
    return log.read_text() if log.exists() else ""
