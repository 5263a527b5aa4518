"""A batch of samples, checked row by row before anything is kept."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from littoral.errors import InputError, brief
from littoral.manager.inputs import at_index
from littoral.manager.stores import Store

LARGEST_BATCH = 10_000
Row = tuple[str, float, int | None, int | None, int | None, bool, bytes]
_ID = re.compile(r"[!-~]{1,100}")  # printable ASCII without spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples that arrived together; lists may be empty where nothing is known."""

    inputs: NDArray[Any]
    ids: Sequence[str | None] = ()
    predicted: Sequence[int | None] = ()
    actual: Sequence[int | None] = ()
    versions: Sequence[int | None] = ()  # of the model, that predicted
    times: Sequence[float | None] = ()  # seconds since 1970; now, where none is given


def checked_rows(store: Store, batch: Batch, now: float) -> list[Row]:
    """What to keep: id, time, predicted, actual, version, held out, input."""
    kind, count = store.kind, len(batch.inputs)
    if count > LARGEST_BATCH:
        raise InputError(f"{count} samples at once", remedy=f"send at most {LARGEST_BATCH} in a batch")
    inputs = kind.checked(batch.inputs)
    columns = [
        _column(name, getattr(batch, name), count) for name in ("ids", "predicted", "actual", "versions", "times")
    ]
    rows = []
    for index, (id, predicted, actual, version, at) in enumerate(zip(*columns, strict=True)):
        name = _checked_id(index, id)
        rows.append((
            name, _checked_time(index, at, now), kind.label(index, predicted, "the predicted label"),
            kind.label(index, actual, "the actual label"), _checked_version(index, version),
            held_out(store.name, name, store.retention.held_out), inputs[index].tobytes(),
        ))  # fmt: skip
    return rows


def _column(name: str, values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) == 0:
        return [None] * count
    if len(values) != count:
        raise InputError(f"{len(values)} {name} for {count} inputs", remedy="give one for each input, or none at all")
    return values


def _checked_id(index: int, id: str | None) -> str:
    if id is None:
        return uuid.uuid4().hex
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise at_index(index, f"the id {brief(id)}", "give up to 100 printable characters without spaces")
    return id


def _checked_time(index: int, at: float | None, now: float) -> float:
    if at is None:
        return now
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e11:
        raise at_index(index, f"the time {brief(at)}", "give seconds since 1970")
    return float(at)


def _checked_version(index: int, version: int | None) -> int | None:
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**31):
        raise at_index(index, f"the version {brief(version)}", "give the number of the model's version")
    return version


def held_out(store: str, id: str, share: float) -> bool:
    """Whether a sample is never trained on.

    >>> sum(held_out("cameras", f"picture-{i}", 0.2) for i in range(10_000))
    1973
    """
    digest = hashlib.blake2b(f"{store}/{id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
