"""Ctrl-C, or being asked to end (SIGTERM): answered at once, and carried out in order however often it is asked."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_CODE = 130


class Interruption:
    """While it is entered, the first signal becomes a KeyboardInterrupt, so that whatever was started is ended.

    The second changes nothing, since that takes a moment. The third ends this process on the spot; processes of a
    run die with it, but what a lab has set up stays until ``littoral lab down``.
    """

    def __init__(self) -> None:
        self.advice: Callable[[], str] = lambda: ""  # what to tell besides, when it happens
        self._signals = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._struck) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        if self._signals:
            # All is ended. Python's own way out would take a moment in which it no longer minds its handlers, and
            # would end by the signal instead of the code if the interruption had struck where C ran some Python.
            sys.stdout.flush()
            os._exit(EXIT_CODE)
        for number, before in self._before.items():
            signal.signal(number, before)

    def check(self) -> None:
        """Raise again what was swallowed: imports of large libraries sometimes do that."""
        if self._signals:
            raise KeyboardInterrupt

    def _struck(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 2:
            os._exit(EXIT_CODE)
        if self._signals == 2:
            _say("still ending; once more ends it on the spot")
            return
        _say(f"interrupted{self.advice()}")
        _interrupt()


def _say(text: str) -> None:
    """Past Python's buffers, in which the signal may have struck."""
    after_the_echo = "\n" if os.isatty(2) else ""  # the terminal has just written ^C
    with suppress(OSError):
        os.write(2, f"{after_the_echo}littoral: {text}\n".encode())


def _interrupt() -> None:
    """Raise KeyboardInterrupt here or, where an event loop runs, between two of its callbacks and not within one."""
    try:
        from asyncio import get_running_loop  # late, for commands that need no loop

        loop = get_running_loop()
    except (ImportError, RuntimeError):  # it was just being imported, or no loop runs
        raise KeyboardInterrupt from None
    loop.call_soon_threadsafe(_raise)


def _raise() -> None:
    raise KeyboardInterrupt
