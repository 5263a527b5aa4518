"""One thread writes samples: whatever waits when it comes round goes to the disk in one transaction.

So an acknowledged sample is on the disk, and single samples from many clients cost one flush together, not one each.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import Any

from littoral.errors import LittoralError
from littoral.manager.database import Database

MOST_WAITING = 50_000  # samples; more, and the disk cannot keep up
_MOST_AT_ONCE = 5_000  # samples in one transaction


class Busy(LittoralError):
    """More arrives than the disk takes; come back in a moment."""

    retry_after_s = 1


@dataclass
class _Work:
    act: Callable[[Connection], Any]
    samples: int
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Performs acts in order, many in a transaction; each act alone succeeds or leaves nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting, self._closed = 0, False
        self._thread: threading.Thread | None = None

    def submit(self, act: Callable[[Connection], Any], samples: int) -> Future[Any]:
        """Its result is there when what it did is on the disk."""
        work = _Work(act, samples)
        with self._lock:
            if self._closed:
                raise Busy("the manager is stopping; send it again when it is back")
            if self._waiting and self._waiting + samples > MOST_WAITING:
                raise Busy(f"{self._waiting} samples wait for the disk; send it again in a moment")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
                self._thread.start()
            self._waiting += samples
            self._queue.put(work)
        return work.done

    @property
    def waiting(self) -> int:
        """Samples submitted that are not on the disk yet."""
        return self._waiting

    def close(self) -> None:
        """After everything submitted is on the disk."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, last = self._gather(first)
            self._perform(group)
            with self._lock:
                self._waiting -= sum(work.samples for work in group)
            if last:
                return

    def _gather(self, first: _Work) -> tuple[list[_Work], bool]:
        group, samples = [first], first.samples
        while samples < _MOST_AT_ONCE:
            try:
                work = self._queue.get_nowait()
            except queue.Empty:
                break
            if work is None:
                return group, True
            group.append(work)
            samples += work.samples
        return group, False

    def _perform(self, group: list[_Work]) -> None:
        answers: list[tuple[_Work, Any, Exception | None]] = []
        try:
            with self._database.write() as connection:
                answers = [_one(connection, work) for work in group]
        except Exception as error:  # a full disk, say: nothing of the group is kept, and each caller hears of it
            answers = [(work, None, error) for work in group]
        for work, answer, refusal in answers:
            if refusal is None:
                work.done.set_result(answer)
            else:
                work.done.set_exception(refusal)


def _one(connection: Connection, work: _Work) -> tuple[_Work, Any, Exception | None]:
    connection.execute("SAVEPOINT one")
    try:
        answer = work.act(connection)
    except Exception as error:
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return work, None, error
    connection.execute("RELEASE one")
    return work, answer, None
