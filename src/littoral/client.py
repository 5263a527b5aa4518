"""Talk to a manager from Python: ``Client``, and ``littoral.AsyncClient`` for asyncio. Answers are typed records.

    with Client("http://127.0.0.1:8437", token) as manager:
        run = manager.submit({"continuum": "bench", "task": "littoral.tasks.digits"}).run
        for run in manager.watch(run.number):
            print(run.state, run.progress)

Requests that find nobody are repeated; what creates something carries a key, so that it is created once. Refusals raise
what the library itself raises: ``InputError`` and its kinds, ``Infeasible``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

import msgspec

from littoral.manager import calls
from littoral.manager.answers import AGAIN, WAITS_S, StreamReader, read_answer
from littoral.manager.calls import Call, Planned, Submitted
from littoral.manager.continuums import ContinuumRecord
from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.events import ManagerEvent
from littoral.manager.jobs import RunOptions
from littoral.manager.paging import Page
from littoral.manager.profiles import ProfileRecord
from littoral.manager.runs import ENDED, Run
from littoral.manager.transport import httpx_, patience, request_of, resuming, settings, unreachable

T = TypeVar("T")


class Client:
    """A manager, asked and waited for."""

    def __init__(self, url: str, token: str = "", *, certificate: str = "") -> None:
        """``certificate`` is the file of one to trust besides the public ones."""
        self._http = httpx_().Client(**settings(url, token, certificate))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def do(self, call: Call[T]) -> T:
        """Send any call."""
        for wait in (*WAITS_S, None):
            try:
                response = self._http.request(**request_of(call))
            except httpx_().TransportError as error:
                if wait is None:
                    raise unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in AGAIN:
                    return read_answer(call, response.status_code, response.content)
            time.sleep(wait)
        raise AssertionError("unreachable")

    def submit(
        self, job: Mapping[str, Any], options: RunOptions = RunOptions(), *, plan: int | None = None
    ) -> Submitted:
        """Keep a job and queue its run."""
        return self.do(calls.submit(job, options, plan))

    def plan(self, job: Mapping[str, Any], *, simulate: bool = False, pareto: bool = False) -> Planned:
        """Plan a job without running it; ``pareto`` gives all plans between quick, cheap and fair."""
        return self.do(calls.plan(job, simulate, pareto))

    def put_continuum(self, name: str, document: Mapping[str, Any]) -> ContinuumRecord:
        """Keep a continuum."""
        return self.do(calls.put_continuum(name, document))

    def put_profile(self, name: str, files: Mapping[str, str]) -> ProfileRecord:
        """Keep a profile."""
        return self.do(calls.put_profile(name, files))

    def run(self, number: int) -> Run:
        """One run and how far it is."""
        return self.do(calls.run(number))

    def runs(
        self, *, limit: int = 50, after: str | None = None, state: str | None = None, newest: bool = False
    ) -> Page[Run]:
        """A page of runs, the oldest first or the newest."""
        return self.do(calls.runs(limit, after, state, newest))

    def result(self, number: int) -> dict[str, Any]:
        """What came out of a run."""
        return self.do(calls.result(number)).result

    def journal(self, number: int, *, limit: int = 500, after: str | None = None) -> Page[dict[str, Any]]:
        """A page of a run's journal."""
        return self.do(calls.journal(number, limit, after))

    def log(self, number: int) -> str:
        """The end of what a run's process printed."""
        return self.do(calls.log(number))

    def stop(self, number: int) -> Run:
        """Stop a run once it has written a checkpoint."""
        return self.do(calls.stop(number))

    def resume(self, number: int) -> Run:
        """Go on with a stopped or failed run."""
        return self.do(calls.resume(number))

    def devices(
        self, *, limit: int = 500, after: str | None = None, continuum: str | None = None
    ) -> Page[DeviceRecord]:
        """A page of devices and what they are doing."""
        return self.do(calls.devices(limit, after, continuum))

    def apps(self, *, limit: int = 500, after: str | None = None, continuum: str | None = None) -> Page[AppRecord]:
        """A page of background apps."""
        return self.do(calls.apps(limit, after, continuum))

    def pardon(self, device: str) -> int:
        """Forgive a device its strikes; how many."""
        return int(self.do(calls.pardon(device))["forgiven"])

    def events(
        self, *, limit: int = 500, after: str | None = None, kind: str | None = None, subject: str | None = None
    ) -> Page[ManagerEvent]:
        """A page of what happened."""
        return self.do(calls.events(limit, after, kind, subject))

    def watch(self, number: int) -> Iterator[Run]:
        """A run at each change, until it has ended."""
        for data in self._stream(f"/runs/{number}/stream", {}, StreamReader()):
            run = msgspec.convert(data, Run)
            yield run
            if run.state in ENDED:
                return

    def watch_events(
        self, *, after: int | None = None, kind: str | None = None, subject: str | None = None
    ) -> Iterator[ManagerEvent]:
        """What happens from now on, or after an event's number; goes on after a broken connection."""
        params = {name: value for name, value in (("kind", kind), ("subject", subject)) if value is not None}
        for data in self._stream("/events/stream", params, StreamReader(None if after is None else str(after))):
            yield msgspec.convert(data, ManagerEvent)

    def _stream(self, path: str, params: Mapping[str, str], reader: StreamReader) -> Iterator[dict[str, Any]]:
        failures = 0
        while True:
            try:
                with self._http.stream(
                    "GET", path, params=params, headers=resuming(reader), timeout=patience()
                ) as response:
                    if response.status_code >= 400:
                        read_answer(Call(method="GET", path=path), response.status_code, response.read())
                    for line in response.iter_lines():
                        failures = 0
                        yield from reader.feed(line)
            except httpx_().TransportError as error:
                if failures >= len(WAITS_S):
                    raise unreachable(self._http.base_url, error) from error
            time.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
            failures += 1
