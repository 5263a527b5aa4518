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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

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


def asked(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that sends such a call and waits for the answer."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.do(make(*args, **kwargs))

    return described(method, make)


class Client:
    """A manager, asked and waited for."""

    def __init__(self, url: str, token: str = "", *, certificate: str = "") -> None:
        """``certificate`` is the file of one to trust besides the public ones."""
        self._http = httpx_().Client(**settings(url, token, certificate))

    @classmethod
    def of_folder(cls, data: str | Path) -> Self:
        """Of the manager that serves a data folder of this machine, with the token it left there."""
        address = known_address(Path(data))
        return cls(address.url, address.token, certificate=address.certificate)

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

    submit = asked(calls.submit)
    plan = asked(calls.plan)
    put_continuum = asked(calls.put_continuum)
    put_profile = asked(calls.put_profile)
    run = asked(calls.run)
    runs = asked(calls.runs)
    result = asked(calls.result)
    journal = asked(calls.journal)
    log = asked(calls.log)
    stop = asked(calls.stop)
    resume = asked(calls.resume)
    devices = asked(calls.devices)
    apps = asked(calls.apps)
    pardon = asked(calls.pardon)
    events = asked(calls.events)

    # -- models -------------------------------------------------------------------------------------------------

    create_model = asked(model_calls.create_model)
    models = asked(model_calls.models)
    model = asked(model_calls.model)
    versions = asked(model_calls.versions)
    weights = asked(model_calls.weights)
    add_version = asked(model_calls.add_version)
    promote = asked(model_calls.promote)
    rollback = asked(model_calls.rollback)
    label = asked(model_calls.label)
    predict = asked(model_calls.predict)
    update_model = asked(model_calls.update_model)
    update = asked(model_calls.update)
    updates = asked(model_calls.updates)
    create_trigger = asked(model_calls.create_trigger)
    triggers = asked(model_calls.triggers)
    delete_trigger = asked(model_calls.delete_trigger)
    signal = asked(model_calls.signal)

    def ingest(
        self, store: str, inputs: ArrayLike, *, predicted: Labels = (), actual: Labels = (),
        versions: Sequence[int] = (), ids: Sequence[str] = (), times: Sequence[float] = (),
    ) -> Added:  # fmt: skip
        """Keep samples, one column for each thing that is known of them; they are on the disk when this returns."""
        known = Known(predicted=predicted, actual=actual, versions=versions, ids=ids, times=times)
        return self.do(model_calls.ingest(store, inputs, known))

    # -- streams ------------------------------------------------------------------------------------------------

    def watch(self, number: int) -> Iterator[Run]:
        """A run at each change, until it has ended."""
        return self._stream(streams.run_changes(number))

    def watch_events(
        self, *, after: int | None = None, kind: str | None = None, subject: str | None = None
    ) -> Iterator[ManagerEvent]:
        """What happens from now on, or after an event's number; goes on after a broken connection."""
        return self._stream(streams.later_events(after=after, kind=kind, subject=subject))

    def watch_update(self, number: int) -> Iterator[Update]:
        """An update now and at each change, until it has ended."""
        update = self.update(number)
        yield update
        if update.ended is not None:
            return
        for event in self.watch_events(after=0, kind="update.", subject=f"models/{update.model}"):
            if event.data.get("update") == number and (found := self.update(number)) != update:
                update = found
                yield update
                if update.ended is not None:
                    return

    def _stream(self, stream: Stream[T]) -> Iterator[T]:
        failures, reader = 0, stream.reader()
        while True:
            try:
                with self._http.stream(**opening(stream, reader)) as response:
                    if response.status_code >= 400:
                        read_answer(stream.call, response.status_code, response.read())
                    for line in response.iter_lines():
                        failures = 0
                        for event in stream.read(reader, line):
                            yield event
                            if stream.ends(event):
                                return
            except httpx_().TransportError as error:
                if failures >= len(WAITS_S):
                    raise unreachable(self._http.base_url, error) from error
            time.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
            failures += 1
