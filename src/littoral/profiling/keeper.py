"""Keeps the stressors of one device: starts them in its place, ends them all with whoever asked for them.

python -m littoral.profiling.keeper        reads an order in one line on stdin, answers "ready"

A stressor that ends by itself ends the keeper, which says on stdout which one it was. Stressors are killed when stdin
closes, when the asking process is gone however it went, and by the kernel when the keeper itself is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from littoral.worlds.lab.places import Place, enter

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_BEAT_S = 0.1  # of stressors that run for a share of the time
_GLANCE_S, _PATIENCE_S = 0.02, 120.0  # while a stressor comes to work


class Order(msgspec.Struct, frozen=True):
    """What to keep, where."""

    place: Place | None
    folder: str  # for temporary files; removed at the end
    commands: dict[str, list[str]]
    beating: dict[str, float] = {}
    """Shares of time, for stressors that know only full speed: they are stopped in between."""
    telling: tuple[str, ...] = ()
    """Stressors that take long to be at work and say "burning" when they are: the next ones are started then."""


Children = dict[str, subprocess.Popen[bytes]]


def keep(order: Order, owner: int) -> str:
    """Until somebody ends; the stressor that did, with its last words, or nothing."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what a stressor leaves behind becomes our child
    if order.place is not None:
        enter(order.place)
    children: Children = {}
    try:
        for name, command in order.commands.items():
            children[name] = _start(command, Path(order.folder, name))
            if name in order.telling:
                _wait(children[name], Path(order.folder, name), owner)
        print("ready", flush=True)
        ended = _watch(children, owner, order.beating)
        return f"{ended}: {_last_words(Path(order.folder, ended))}" if ended else ""
    finally:
        _end(children)
        shutil.rmtree(order.folder, ignore_errors=True)


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0, preexec_fn=_die_with_keeper
        )


def _wait(child: subprocess.Popen[bytes], log: Path, owner: int) -> None:
    """Until it is at work, or somebody ends; OSError if it takes too long."""
    watched, deadline = os.pidfd_open(child.pid), time.monotonic() + _PATIENCE_S
    while b"burning" not in log.read_bytes():
        if select.select([watched, owner, sys.stdin.fileno()], [], [], _GLANCE_S)[0]:
            break
        if time.monotonic() > deadline:
            raise OSError(f"{log.name} is not at work after {_PATIENCE_S:.0f} s")
    os.close(watched)


def _die_with_keeper() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _watch(children: Children, owner: int, beating: dict[str, float]) -> str:
    watched = {os.pidfd_open(child.pid): name for name, child in children.items()}
    watched |= {owner: "", sys.stdin.fileno(): ""}
    while True:
        for pause, signal_sent in _beats(beating):
            for name in beating if signal_sent else ():
                os.killpg(children[name].pid, signal_sent)
            if ended := select.select(list(watched), [], [], pause)[0]:
                return watched[ended[0]]


def _beats(beating: dict[str, float]) -> list[tuple[float | None, int]]:
    """Pauses, and the signal before each. Stressors that beat do so with the same share."""
    shares = [share for share in beating.values() if share < 1]
    if not shares:
        return [(None, 0)]
    return [(shares[0] * _BEAT_S, signal.SIGCONT), ((1 - shares[0]) * _BEAT_S, signal.SIGSTOP)]


def _end(children: Children) -> None:
    for child in children.values():
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:  # also what left its process group
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")


def main() -> None:
    """Says what ended too early, or what could not be started."""
    owner = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a user's Ctrl-C is for the asking process, which then ends us
    try:
        said = keep(msgspec.json.decode(sys.stdin.buffer.readline(), type=Order), owner)
    except OSError as error:
        said = str(error)
    print(said, flush=True)


if __name__ == "__main__":
    main()
