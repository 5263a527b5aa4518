"""What can be asked of a manager about its models: samples, predictions, updates, versions and triggers, as values."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from littoral.errors import InputError
from littoral.manager.calls import Call
from littoral.manager.model_records import Model, Version
from littoral.manager.paging import Page
from littoral.manager.parcels import Head, pack_samples
from littoral.manager.samples import Added
from littoral.manager.trigger_rows import Signal, TriggerRow
from littoral.manager.updates import Update

Labels = Sequence[int | None] | NDArray[np.integer[Any]]
_KINDS = ("float32", "float16", "uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The likeliest class of each input, the probabilities of all classes, and the version that says so."""

    model: str
    version: int
    labels: list[int]
    probabilities: list[list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of samples, each a list as long as the samples or none: as :class:`manager.samples.Batch`."""

    predicted: Labels = ()
    actual: Labels = ()
    ids: Sequence[str] = ()
    versions: Sequence[int] = ()
    times: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labelled:
    unknown: list[str]


# -- models and versions ----------------------------------------------------------------------------------------------


def create_model(document: Mapping[str, Any]) -> Call[Model]:
    """A model as the service's ``POST /models`` takes it; its store has its name if none is given."""
    return Call(method="POST", path="/models", answer=Model, body=dict(document), key=str(uuid4()))


def models(*, limit: int = 500, after: str | None = None) -> Call[Page[Model]]:
    """A page of models."""
    return Call(method="GET", path="/models", answer=Page[Model], params=_page(limit, after))


def model(name: str) -> Call[Model]:
    """One model."""
    return Call(method="GET", path=f"/models/{name}", answer=Model)


def versions(name: str, *, limit: int = 500, after: str | None = None) -> Call[Page[Version]]:
    """A page of a model's versions, the oldest first."""
    return Call(method="GET", path=f"/models/{name}/versions", answer=Page[Version], params=_page(limit, after))


def weights(name: str, version: int) -> Call[bytes]:
    """The weights of a version, as safetensors."""
    return Call(method="GET", path=f"/models/{name}/versions/{version}/weights", answer=bytes)


def add_version(name: str, weights: bytes) -> Call[Version]:
    """Weights from elsewhere: a candidate, to be promoted."""
    return Call(method="POST", path=f"/models/{name}/versions", answer=Version, content=weights, key=str(uuid4()))


def promote(name: str, version: int, *, force: bool = False) -> Call[Version]:
    """Serve a version if the gate lets it pass; ``force``: in any case."""
    body = {"version": version, "force": force}
    return Call(method="POST", path=f"/models/{name}/promote", answer=Version, body=body, key=str(uuid4()))


def rollback(name: str) -> Call[Version]:
    """Serve the version that was served before."""
    return Call(method="POST", path=f"/models/{name}/rollback", answer=Version, key=str(uuid4()))


# -- samples and predictions ------------------------------------------------------------------------------------------


def ingest(store: str, inputs: ArrayLike, known: Known) -> Call[Added]:
    """Keep samples. Each gets an id where it has none, so that a repeated request adds nothing."""
    values = _values(inputs)
    for column in fields(known):
        _check_length(column.name, getattr(known, column.name), len(values))
    head = Head(
        **_announced(values), ids=list(known.ids) or [uuid4().hex for _ in values],
        predicted=_labels(known.predicted), actual=_labels(known.actual), versions=list(known.versions),
        times=list(known.times),
    )  # fmt: skip
    return Call(method="POST", path=f"/stores/{store}/samples", answer=Added, content=pack_samples(head, values))


def label(store: str, labels: Mapping[str, int]) -> Call[list[str]]:
    """Tell what was true of samples, by their ids; those that the store does not have."""
    body = {"labels": [{"id": id, "actual": int(actual)} for id, actual in labels.items()]}
    return Call(method="PATCH", path=f"/stores/{store}/samples", answer=_Labelled, part="unknown", body=body)


def predict(name: str, inputs: ArrayLike) -> Call[Prediction]:
    """Ask the version that is served. Inputs travel one by one, so that each is checked to be whole."""
    values = _values(inputs)
    body = {"inputs": [base64.b64encode(value.tobytes()).decode() for value in values], **_announced(values)}
    return Call(method="POST", path=f"/models/{name}/predict", answer=Prediction, body=body)


# -- updates and triggers ---------------------------------------------------------------------------------------------


def update_model(name: str, why: str = "asked for by hand") -> Call[Update]:
    """Update a model now, whatever its triggers say."""
    return Call(method="POST", path=f"/models/{name}/update", answer=Update, body={"why": why}, key=str(uuid4()))


def update(number: int) -> Call[Update]:
    """One update."""
    return Call(method="GET", path=f"/updates/{number}", answer=Update)


def updates(name: str, *, limit: int = 500, after: str | None = None) -> Call[Page[Update]]:
    """A page of a model's updates, the newest first."""
    return Call(method="GET", path=f"/models/{name}/updates", answer=Page[Update], params=_page(limit, after))


def create_trigger(model: str, kind: str, /, **settings: Any) -> Call[TriggerRow]:
    """A trigger of a model, by its kind and that kind's settings."""
    body = {"model": model, "kind": kind, "settings": settings}
    return Call(method="POST", path="/triggers", answer=TriggerRow, body=body, key=str(uuid4()))


def triggers(model: str | None = None, *, limit: int = 500, after: str | None = None) -> Call[Page[TriggerRow]]:
    """A page of triggers, of one model or of all."""
    params = _page(limit, after) | ({} if model is None else {"model": model})
    return Call(method="GET", path="/triggers", answer=Page[TriggerRow], params=params)


def delete_trigger(number: int) -> Call[None]:
    """Delete a trigger with its signal."""
    return Call(method="DELETE", path=f"/triggers/{number}")


def signal(trigger: int, *, limit: int = 500, after: str | None = None) -> Call[Page[Signal]]:
    """A page of what a trigger saw, the oldest first; it fires at 1."""
    return Call(method="GET", path=f"/triggers/{trigger}/signal", answer=Page[Signal], params=_page(limit, after))


def _page(limit: int, after: str | None) -> dict[str, Any]:
    return {"limit": limit} if after is None else {"limit": limit, "after": after}


def _labels(given: Labels) -> list[int | None]:
    try:
        return [None if each is None else index(each) for each in given]
    except TypeError as error:
        raise InputError(f"a label: {error}", remedy="give whole numbers, and None where it is not known") from error


def _check_length(name: str, column: Sequence[Any], count: int) -> None:
    if len(column) not in (0, count):
        raise InputError(f"{len(column)} {name} for {count} inputs", remedy="give one for each input, or none at all")


def _values(inputs: ArrayLike) -> NDArray[Any]:
    """Little-endian, as stores keep them; Python's floats become float32. What the store takes is for it to say."""
    remedy = f"give one of {', '.join(_KINDS)}, the first dimension the samples"
    try:
        values = np.asarray(inputs)
    except ValueError as error:
        raise InputError("inputs of different shapes", remedy=remedy) from error
    if values.dtype == np.float64:
        values = values.astype(np.float32)
    if values.dtype.name not in _KINDS or values.ndim < 2 or not len(values):
        raise InputError(f"inputs of {values.dtype}, together of shape {values.shape}", remedy=remedy)
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _announced(values: NDArray[Any]) -> dict[str, Any]:
    """What the values are, so that the service need not guess from their bytes."""
    return {"dtype": values.dtype.name, "shape": list(values.shape[1:])}
