"""Samples and inputs as requests carry them: JSON, or for speed a short JSON head and then the raw bytes.

    application/json           {"samples": [{"input": ..., "id": ..., "predicted": ..., "actual": ...}, ...]}
    application/octet-stream   length of the head in 4 bytes, little-endian; the head as JSON; then the inputs

An input in JSON is nested lists of numbers, or base64 of its bytes. The head has a list for each column, or none. Bytes
may be announced by ``dtype`` and ``shape`` of one input, lest what was meant as something else be taken for right.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Annotated, Any, TypeVar

import msgspec
from numpy.typing import NDArray

from littoral.errors import InputError
from littoral.manager.inputs import Kind
from littoral.manager.keys import EXPECTED, complaint
from littoral.manager.sample_rows import LARGEST_BATCH, Batch

BINARY = "application/octet-stream"
_LENGTH = struct.Struct("<I")
T = TypeVar("T")
_Word = Annotated[str, msgspec.Meta(max_length=20)]
_Shape = Annotated[list[int], msgspec.Meta(max_length=8)]


class GivenSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sample as JSON."""

    input: Any
    id: str | None = None
    predicted: int | None = None
    actual: int | None = None
    version: int | None = None
    at: float | None = None


class GivenSamples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Samples as JSON."""

    samples: Annotated[list[GivenSample], msgspec.Meta(min_length=1, max_length=LARGEST_BATCH)]


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The columns of samples whose inputs follow as bytes."""

    dtype: _Word | None = None
    shape: _Shape | None = None
    ids: list[str | None] = []
    predicted: list[int | None] = []
    actual: list[int | None] = []
    versions: list[int | None] = []
    times: list[float | None] = []


class GivenInputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inputs as JSON."""

    inputs: Annotated[list[Any], msgspec.Meta(min_length=1)]
    dtype: _Word | None = None
    shape: _Shape | None = None


def read_samples(kind: Kind, body: bytes, binary: bool) -> Batch:
    """The samples of a request's body."""
    if binary:
        text, inputs = _split(body)
        head = _json(text, Head)
        kind.check_announced(head.dtype, head.shape)
        return Batch(
            inputs=kind.from_bytes(inputs), ids=head.ids, predicted=head.predicted, actual=head.actual,
            versions=head.versions, times=head.times,
        )  # fmt: skip
    samples = _json(body, GivenSamples).samples
    return Batch(
        inputs=kind.from_json([sample.input for sample in samples]),
        ids=[sample.id for sample in samples], predicted=[sample.predicted for sample in samples],
        actual=[sample.actual for sample in samples], versions=[sample.version for sample in samples],
        times=[sample.at for sample in samples],
    )  # fmt: skip


def read_inputs(kind: Kind, body: bytes, binary: bool) -> NDArray[Any]:
    """The inputs of a request's body; as bytes they need no head."""
    if binary:
        return kind.from_bytes(body)
    given = _json(body, GivenInputs)
    kind.check_announced(given.dtype, given.shape)
    return kind.from_json(given.inputs)


def pack_samples(head: Head, inputs: NDArray[Any]) -> bytes:
    """A body of raw bytes, as ``read_samples`` takes it."""
    text = msgspec.json.encode(head)
    return _LENGTH.pack(len(text)) + text + inputs.tobytes()


def named(batch: Batch, key: str) -> Batch:
    """With ids made from a request's key for samples that have none, so that the same request adds nothing twice."""
    stem = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    ids = batch.ids or [None] * len(batch.inputs)
    made = [id if id is not None else f"{stem}-{index}" for index, id in enumerate(ids)]
    return Batch(
        inputs=batch.inputs, ids=made, predicted=batch.predicted, actual=batch.actual, versions=batch.versions,
        times=batch.times,
    )  # fmt: skip


def _split(body: bytes) -> tuple[memoryview, memoryview]:
    view = memoryview(body)
    length = _LENGTH.unpack_from(body)[0] if len(body) >= _LENGTH.size else len(body)
    end = _LENGTH.size + length
    if end > len(body):
        raise InputError(
            f"{len(body)} bytes, too few for the head they announce",
            remedy="send the head's length in 4 bytes, little-endian, the head as JSON, then the inputs",
        )
    return view[_LENGTH.size : end], view[end:]


def _json(content: bytes | memoryview, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise complaint(error, kind, "the body", at="body") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body: {error}", remedy=EXPECTED) from error
