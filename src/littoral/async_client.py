"""Talk to a manager from asyncio: the methods of ``littoral.Client``, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from numpy.typing import ArrayLike

from littoral.manager import calls, model_calls, streams
from littoral.manager.address import known_address
from littoral.manager.answers import AGAIN, WAITS_S, read_answer
from littoral.manager.calls import Call
from littoral.manager.events import ManagerEvent
from littoral.manager.model_calls import Known, Labels
from littoral.manager.runs import Run
from littoral.manager.samples import Added
from littoral.manager.streams import Stream
from littoral.manager.transport import described, httpx_, opening, request_of, settings, unreachable
from littoral.manager.updates import Update

P = ParamSpec("P")
T = TypeVar("T")


def awaited(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method that sends such a call; its answer is awaited."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.do(make(*args, **kwargs))

    return described(method, make)


class AsyncClient:
    """A manager, asked without blocking: the methods of :class:`Client`, awaited."""

    def __init__(self, url: str, token: str = "", *, certificate: str = "") -> None:
        self._http = httpx_().AsyncClient(**settings(url, token, certificate))

    @classmethod
    def of_folder(cls, data: str | Path) -> Self:
        """Of the manager that serves a data folder of this machine, with the token it left there."""
        address = known_address(Path(data))
        return cls(address.url, address.token, certificate=address.certificate)

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

    submit = awaited(calls.submit)
    plan = awaited(calls.plan)
    put_continuum = awaited(calls.put_continuum)
    put_profile = awaited(calls.put_profile)
    run = awaited(calls.run)
    runs = awaited(calls.runs)
    result = awaited(calls.result)
    journal = awaited(calls.journal)
    log = awaited(calls.log)
    stop = awaited(calls.stop)
    resume = awaited(calls.resume)
    devices = awaited(calls.devices)
    apps = awaited(calls.apps)
    pardon = awaited(calls.pardon)
    events = awaited(calls.events)

    # -- models -------------------------------------------------------------------------------------------------

    create_model = awaited(model_calls.create_model)
    models = awaited(model_calls.models)
    model = awaited(model_calls.model)
    versions = awaited(model_calls.versions)
    weights = awaited(model_calls.weights)
    add_version = awaited(model_calls.add_version)
    promote = awaited(model_calls.promote)
    rollback = awaited(model_calls.rollback)
    label = awaited(model_calls.label)
    predict = awaited(model_calls.predict)
    update_model = awaited(model_calls.update_model)
    update = awaited(model_calls.update)
    updates = awaited(model_calls.updates)
    create_trigger = awaited(model_calls.create_trigger)
    triggers = awaited(model_calls.triggers)
    delete_trigger = awaited(model_calls.delete_trigger)
    signal = awaited(model_calls.signal)

    async def ingest(
        self, store: str, inputs: ArrayLike, *, predicted: Labels = (), actual: Labels = (),
        versions: Sequence[int] = (), ids: Sequence[str] = (), times: Sequence[float] = (),
    ) -> Added:  # fmt: skip
        """Keep samples, one column for each thing that is known of them; they are on the disk when this returns."""
        known = Known(predicted=predicted, actual=actual, versions=versions, ids=ids, times=times)
        return await self.do(model_calls.ingest(store, inputs, known))

    # -- streams ------------------------------------------------------------------------------------------------

    def watch(self, number: int) -> AsyncIterator[Run]:
        """A run at each change, until it has ended."""
        return self._stream(streams.run_changes(number))

    def watch_events(
        self, *, after: int | None = None, kind: str | None = None, subject: str | None = None
    ) -> AsyncIterator[ManagerEvent]:
        """What happens from now on, or after an event's number; goes on after a broken connection."""
        return self._stream(streams.later_events(after=after, kind=kind, subject=subject))

    async def watch_update(self, number: int) -> AsyncIterator[Update]:
        """An update now and at each change, until it has ended."""
        update = await self.update(number)
        yield update
        if update.ended is not None:
            return
        async for event in self.watch_events(after=0, kind="update.", subject=f"models/{update.model}"):
            if event.data.get("update") == number and (found := await self.update(number)) != update:
                update = found
                yield update
                if update.ended is not None:
                    return

    async def _stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        failures, reader = 0, stream.reader()
        while True:
            try:
                async with self._http.stream(**opening(stream, reader)) as response:
                    if response.status_code >= 400:
                        read_answer(stream.call, response.status_code, await response.aread())
                    async for line in response.aiter_lines():
                        failures = 0
                        for event in stream.read(reader, line):
                            yield event
                            if stream.ends(event):
                                return
            except httpx_().TransportError as error:
                if failures >= len(WAITS_S):
                    raise unreachable(self._http.base_url, error) from error
            await asyncio.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
            failures += 1
