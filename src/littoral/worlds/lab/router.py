"""Starts and steers the router: the process that owns every host's TUN device and shapes what passes between them.

One shaper for every kernel: netem cannot express a pipe that several pairs share, and many kernels lack it. The router
in C is compiled on first use; where there is no compiler the one in Python, same orders and slower, takes its place.

Orders, one per line on its stdin; ``rate``, ``stats`` and ``ready`` are answered by a line on its stdout:

    net 10.77.3                                  the first three bytes of every address
    seed 7                                       of the losses
    pipe RATE                                    bytes/s ("inf": no limit); pipes are numbered from 0 in this order
    host NUMBER INTERFACE NAMESPACE              last byte of the address; "-": the root's namespace
    route FROM TO LATENCY_S LOSS PIPE,PIPE       hosts by number; "-": no pipe
    rate PIPE RATE                               0 cuts it
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from littoral.worlds.lab.wiring import Wiring


class RouterFailed(Exception):
    """The router refused an order or ended; says what it said."""


def compiled_router() -> Path | None:
    """The router in C, compiled if it is not yet; None where that cannot be done."""
    source = files(__package__).joinpath("router.c").read_bytes()
    try:
        program = _cache() / f"router-{hashlib.sha256(source).hexdigest()[:16]}"
        return program if program.exists() or _compile(source, program) else None
    except OSError:  # no folder to keep it in
        return None


def _compile(source: bytes, program: Path) -> bool:
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        return False
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        (Path(folder) / "router.c").write_bytes(source)
        command = [compiler, "-O2", "-o", "router", "router.c", "-lm"]
        if subprocess.run(command, cwd=folder, capture_output=True).returncode != 0:
            return False
        os.replace(Path(folder) / "router", program)
    return True


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "littoral"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class Router:
    """A running router. Safe to steer from several threads."""

    def __init__(self, lab: str, *, in_python: bool = False) -> None:
        program = None if in_python else compiled_router()
        fallback = str(files(__package__).joinpath("python_router.py"))
        self.in_python = program is None
        command = [sys.executable, "-S", fallback] if program is None else [str(program)]
        self._process = subprocess.Popen(
            [*command, lab], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            stderr=subprocess.DEVNULL,  # it may outlive us, and whoever reads our output would wait for its end
        )  # fmt: skip
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def configure(self, wiring: Wiring, interface: str, spaces: dict[str, str], seed: int) -> None:
        """Tell it the whole network; afterwards every host has its TUN device."""
        self._numbers = {name: number for number, name in enumerate(wiring.pipes)}
        orders = [f"net 10.77.{wiring.subnet}", f"seed {seed}"]
        orders += [f"pipe {pipe.capacity.at(0.0)!r}" for pipe in wiring.pipes.values()]
        for host, number in wiring.hosts.items():
            orders.append(f"host {number} {interface} {spaces.get(host, '-')}")
        self._order(*orders, *self._routes(wiring, list(wiring.paths)))

    def reroute(self, wiring: Wiring, host: str) -> None:
        """Tell it anew the ways to and from a host."""
        self._order(*self._routes(wiring, [pair for pair in wiring.paths if host in pair]))

    def set_rate(self, pipe: str, rate: float) -> None:
        """From now on a pipe carries ``rate`` bytes/s; 0 drops everything."""
        self._ask(f"rate {self._numbers[pipe]} {rate!r}")

    def stats(self) -> dict[str, Any]:
        """Its processor seconds, and per pipe the bytes carried and packets dropped."""
        told = json.loads(self._ask("stats"))
        for key in ("bytes", "dropped"):
            told[key] = dict(zip(self._numbers, told[key], strict=True))
        return dict(told)

    def close(self) -> None:
        """End it; its TUN devices end with it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # it may have ended by itself
            self._process.stdin.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _routes(self, wiring: Wiring, pairs: list[tuple[str, str]]) -> list[str]:
        lines = []
        for source, target in pairs:
            path = wiring.paths[source, target]
            pipes = ",".join(str(self._numbers[name]) for name in path.pipes) or "-"
            ends = f"{wiring.hosts[source]} {wiring.hosts[target]}"
            lines.append(f"route {ends} {path.latency_s!r} {path.loss!r} {pipes}")
        return lines

    def _order(self, *lines: str) -> None:
        self._ask("\n".join([*lines, "ready"]))

    def _ask(self, order: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            try:
                self._process.stdin.write(order + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # its last words say why
            answer = self._process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise RouterFailed(answer.removeprefix("error ") or f"the router ended with {self._process.poll()}")
        return answer
