"""An app of which only the load is known: it computes for as long as its description says."""

from __future__ import annotations

import hashlib
import time

from littoral.apps.registry import Setting

_PIECE = bytes(65536)  # about 0.1 ms; hashed without holding the interpreter, so that messages flow meanwhile


class Busy:
    """Uses ``work`` seconds of the device per period, counted in processor time of its own thread.

    A device that has 0.4 of a core does in a second what takes 0.4 s of processor time.
    """

    def __init__(self, setting: Setting) -> None:
        self._cpu_s = setting.app.work_s * setting.cores

    def prepare(self) -> None:
        pass

    def work(self) -> None:
        end = time.thread_time() + self._cpu_s
        while time.thread_time() < end:
            hashlib.sha256(_PIECE)

    def close(self) -> None:
        pass


APP = Busy
