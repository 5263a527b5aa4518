"""Talk to a manager from asyncio: the methods of ``littoral.Client``, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
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


class AsyncClient:
    """A manager, asked without blocking: the methods of :class:`Client`, awaited."""

    def __init__(self, url: str, token: str = "", *, certificate: str = "") -> None:
        self._http = httpx_().AsyncClient(**settings(url, token, certificate))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def do(self, call: Call[T]) -> T:
        """Send any call."""
        for wait in (*WAITS_S, None):
            try:
                response = await self._http.request(**request_of(call))
            except httpx_().TransportError as error:
                if wait is None:
                    raise unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in AGAIN:
                    return read_answer(call, response.status_code, response.content)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def submit(
        self, job: Mapping[str, Any], options: RunOptions = RunOptions(), *, plan: int | None = None
    ) -> Submitted:
        """Keep a job and queue its run."""
        return await self.do(calls.submit(job, options, plan))

    async def plan(self, job: Mapping[str, Any], *, simulate: bool = False, pareto: bool = False) -> Planned:
        """Plan a job without running it."""
        return await self.do(calls.plan(job, simulate, pareto))

    async def put_continuum(self, name: str, document: Mapping[str, Any]) -> ContinuumRecord:
        """Keep a continuum."""
        return await self.do(calls.put_continuum(name, document))

    async def put_profile(self, name: str, files: Mapping[str, str]) -> ProfileRecord:
        """Keep a profile."""
        return await self.do(calls.put_profile(name, files))

    async def run(self, number: int) -> Run:
        """One run and how far it is."""
        return await self.do(calls.run(number))

    async def runs(
        self, *, limit: int = 50, after: str | None = None, state: str | None = None, newest: bool = False
    ) -> Page[Run]:
        """A page of runs, the oldest first or the newest."""
        return await self.do(calls.runs(limit, after, state, newest))

    async def result(self, number: int) -> dict[str, Any]:
        """What came out of a run."""
        return (await self.do(calls.result(number))).result

    async def journal(self, number: int, *, limit: int = 500, after: str | None = None) -> Page[dict[str, Any]]:
        """A page of a run's journal."""
        return await self.do(calls.journal(number, limit, after))

    async def log(self, number: int) -> str:
        """The end of what a run's process printed."""
        return await self.do(calls.log(number))

    async def stop(self, number: int) -> Run:
        """Stop a run once it has written a checkpoint."""
        return await self.do(calls.stop(number))

    async def resume(self, number: int) -> Run:
        """Go on with a stopped or failed run."""
        return await self.do(calls.resume(number))

    async def devices(
        self, *, limit: int = 500, after: str | None = None, continuum: str | None = None
    ) -> Page[DeviceRecord]:
        """A page of devices and what they are doing."""
        return await self.do(calls.devices(limit, after, continuum))

    async def apps(
        self, *, limit: int = 500, after: str | None = None, continuum: str | None = None
    ) -> Page[AppRecord]:
        """A page of background apps."""
        return await self.do(calls.apps(limit, after, continuum))

    async def pardon(self, device: str) -> int:
        """Forgive a device its strikes; how many."""
        return int((await self.do(calls.pardon(device)))["forgiven"])

    async def events(
        self, *, limit: int = 500, after: str | None = None, kind: str | None = None, subject: str | None = None
    ) -> Page[ManagerEvent]:
        """A page of what happened."""
        return await self.do(calls.events(limit, after, kind, subject))

    async def watch(self, number: int) -> AsyncIterator[Run]:
        """A run at each change, until it has ended."""
        async for data in self._stream(f"/runs/{number}/stream", {}, StreamReader()):
            run = msgspec.convert(data, Run)
            yield run
            if run.state in ENDED:
                return

    async def watch_events(
        self, *, after: int | None = None, kind: str | None = None, subject: str | None = None
    ) -> AsyncIterator[ManagerEvent]:
        """What happens from now on, or after an event's number; goes on after a broken connection."""
        params = {name: value for name, value in (("kind", kind), ("subject", subject)) if value is not None}
        async for data in self._stream("/events/stream", params, StreamReader(None if after is None else str(after))):
            yield msgspec.convert(data, ManagerEvent)

    async def _stream(
        self, path: str, params: Mapping[str, str], reader: StreamReader
    ) -> AsyncIterator[dict[str, Any]]:
        failures = 0
        while True:
            try:
                asked = self._http.stream("GET", path, params=params, headers=resuming(reader), timeout=patience())
                async with asked as response:
                    if response.status_code >= 400:
                        read_answer(Call(method="GET", path=path), response.status_code, await response.aread())
                    async for line in response.aiter_lines():
                        failures = 0
                        for data in reader.feed(line):
                            yield data
            except httpx_().TransportError as error:
                if failures >= len(WAITS_S):
                    raise unreachable(self._http.base_url, error) from error
            await asyncio.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
            failures += 1
