"""What a device runs to be seen: it reads its own load and sends heartbeats until it is asked to end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

from littoral.errors import InputError, LittoralError
from littoral.manager.calls import Call, heartbeat
from littoral.manager.refusals import Conflict
from littoral.profiling.devices import Device
from littoral.profiling.samples import between, summarise

_log = logging.getLogger(__name__)
Ask = Callable[[Call[dict[str, Any]]], dict[str, Any]]


def send_beats(ask: Ask, device: str, every_s: float, ending: threading.Event) -> int:
    """Send a heartbeat every so many seconds; how many were heard. A manager that is away is waited for.

    What cannot get better by itself (a wrong token, an unknown device) is raised.
    """
    heard = 0
    with closing(Device()) as here:
        before = here.read(time.monotonic())
        while not ending.wait(every_s):
            now = here.read(time.monotonic())
            load = summarise([between(before, now)], None)
            heard += _heard(ask, heartbeat(device, time.time(), load), every_s)
            before = now
    return heard


def _heard(ask: Ask, call: Call[dict[str, Any]], every_s: float) -> bool:
    try:
        limit_s = ask(call)["lost_after_s"]
    except Conflict as error:  # another agent speaks for this device, or the clock was set back
        _log.warning("%s", error)
        return False
    except InputError:
        raise
    except LittoralError as error:
        _log.warning("%s", error)
        return False
    if every_s >= limit_s:
        remedy = f"give --every less than {limit_s:g} s"
        raise InputError(f"a heartbeat every {every_s:g} s is too rare for this manager", remedy=remedy)
    return True


@contextmanager
def until_asked() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that ending is no failure."""
    ending = threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        ending.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
