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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from numpy.typing import ArrayLike

from littoral.manager import calls, model_calls
from littoral.manager.address import known_address
from littoral.manager.answers import AGAIN, WAITS_S, StreamReader, read_answer
from littoral.manager.calls import Call, Planned, Submitted
from littoral.manager.continuums import ContinuumRecord
from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.events import ManagerEvent
from littoral.manager.jobs import RunOptions
from littoral.manager.model_calls import Known, Labels, Prediction
from littoral.manager.model_records import Model, Version
from littoral.manager.paging import Page
from littoral.manager.profiles import ProfileRecord
from littoral.manager.runs import ENDED, Run
from littoral.manager.samples import Added
from littoral.manager.transport import httpx_, patience, request_of, resuming, settings, unreachable
from littoral.manager.trigger_rows import Signal, TriggerRow
from littoral.manager.updates import Update

T = TypeVar("T")


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

    # -- models -------------------------------------------------------------------------------------------------

    def create_model(self, document: Mapping[str, Any]) -> Model:
        """A model as the service's ``POST /models`` takes it; its store has its name if none is given."""
        return self.do(model_calls.create_model(document))

    def models(self, *, limit: int = 500, after: str | None = None) -> Page[Model]:
        """A page of models."""
        return self.do(model_calls.models(limit, after))

    def model(self, name: str) -> Model:
        """One model."""
        return self.do(model_calls.model(name))

    def ingest(
        self, store: str, inputs: ArrayLike, *, predicted: Labels = (), actual: Labels = (),
        versions: Sequence[int] = (), ids: Sequence[str] = (), times: Sequence[float] = (),
    ) -> Added:  # fmt: skip
        """Keep samples, one column for each thing that is known of them; they are on the disk when this returns."""
        known = Known(predicted=predicted, actual=actual, versions=versions, ids=ids, times=times)
        return self.do(model_calls.ingest(store, inputs, known))

    def label(self, store: str, labels: Mapping[str, int]) -> list[str]:
        """Tell what was true of samples, by their ids; those that the store does not have."""
        return list(self.do(model_calls.label(store, labels))["unknown"])

    def predict(self, name: str, inputs: ArrayLike) -> Prediction:
        """Ask the version that is served."""
        return self.do(model_calls.predict(name, inputs))

    def update_model(self, name: str, why: str = "asked for by hand") -> Update:
        """Update a model now, whatever its triggers say."""
        return self.do(model_calls.update_model(name, why))

    def update(self, number: int) -> Update:
        """One update."""
        return self.do(model_calls.update(number))

    def updates(self, name: str, *, limit: int = 500, after: str | None = None) -> Page[Update]:
        """A page of a model's updates, the newest first."""
        return self.do(model_calls.updates(name, limit, after))

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

    def versions(self, name: str, *, limit: int = 500, after: str | None = None) -> Page[Version]:
        """A page of a model's versions, the oldest first."""
        return self.do(model_calls.versions(name, limit, after))

    def weights(self, name: str, version: int) -> bytes:
        """The weights of a version, as safetensors."""
        return self.do(model_calls.weights(name, version))

    def add_version(self, name: str, weights: bytes) -> Version:
        """Weights from elsewhere: a candidate, to be promoted."""
        return self.do(model_calls.add_version(name, weights))

    def promote(self, name: str, version: int, *, force: bool = False) -> Version:
        """Serve a version if the gate lets it pass; ``force``: in any case."""
        return self.do(model_calls.promote(name, version, force))

    def rollback(self, name: str) -> Version:
        """Serve the version that was served before."""
        return self.do(model_calls.rollback(name))

    def create_trigger(self, model: str, kind: str, /, **settings: Any) -> TriggerRow:
        """A trigger of a model, by its kind and that kind's settings."""
        return self.do(model_calls.create_trigger(model, kind, settings))

    def triggers(self, model: str | None = None, *, limit: int = 500, after: str | None = None) -> Page[TriggerRow]:
        """A page of triggers, of one model or of all."""
        return self.do(model_calls.triggers(model, limit, after))

    def delete_trigger(self, number: int) -> None:
        """Delete a trigger with its signal."""
        self.do(model_calls.delete_trigger(number))

    def signal(self, trigger: int, *, limit: int = 500, after: str | None = None) -> Page[Signal]:
        """A page of what a trigger saw, the oldest first; it fires at 1."""
        return self.do(model_calls.signal(trigger, limit, after))

    # -- streams ------------------------------------------------------------------------------------------------

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
