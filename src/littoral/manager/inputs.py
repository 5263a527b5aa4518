"""What a model takes: inputs of one type and shape, labels below a bound. Everything that arrives is checked here.

A refusal names the index of the first offending sample, so that a client can mend its batch.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError, brief
from littoral.learning.task import Task
from littoral.manager.keys import complaint
from littoral.tasks.stored import as_model_input

LARGEST_INPUT_BYTES = 16 * 2**20  # of one sample
_Side = Annotated[int, msgspec.Meta(ge=1)]


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pixels (uint8) are standardised by ``mean`` and ``deviation``, on the scale 0..1; floats stay as they are."""

    shape: Annotated[tuple[_Side, ...], msgspec.Meta(min_length=1, max_length=4)]
    classes: Annotated[int, msgspec.Meta(ge=2, le=1_000_000)]
    dtype: Literal["float32", "float16", "uint8"] = "float32"
    mean: float = 0.0
    deviation: Annotated[float, msgspec.Meta(gt=0)] = 1.0

    def __post_init__(self) -> None:
        if self.sample_bytes > LARGEST_INPUT_BYTES:
            raise ValueError(f"a sample of {self.sample_bytes} bytes is larger than {LARGEST_INPUT_BYTES}")
        if not math.isfinite(self.mean) or not math.isfinite(self.deviation):
            raise ValueError("mean and deviation must be finite")

    @property
    def sample_bytes(self) -> int:
        """Of one input, as stored."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    # -- what arrives -------------------------------------------------------------------------------------------

    def from_bytes(self, content: bytes | memoryview) -> NDArray[Any]:
        """A batch of inputs from their bytes, little-endian, one after the other."""
        if len(content) == 0 or len(content) % self.sample_bytes:
            raise InputError(
                f"{len(content)} bytes are no whole number of inputs",
                remedy=f"each is {self._words()}: {self.sample_bytes} bytes",
            )
        values: NDArray[Any] = np.frombuffer(content, dtype=np.dtype(self.dtype).newbyteorder("<"))
        return self.checked(values.reshape(-1, *self.shape))

    def check_announced(self, dtype: str | None, shape: Sequence[int] | None) -> None:
        """Refuse inputs that are said to be something else, before their bytes are taken for this."""
        wrong_shape = shape is not None and tuple(shape) != self.shape
        if wrong_shape or (dtype is not None and dtype != self.dtype):
            found = f"inputs of {dtype or self.dtype}, each of shape {tuple(shape or self.shape)}"
            raise InputError(found, remedy=f"give {self._words()}", key="shape" if wrong_shape else "dtype")

    def from_json(self, inputs: Sequence[object]) -> NDArray[Any]:
        """A batch of inputs, each as nested lists of numbers or as base64 of its bytes."""
        if not inputs:
            raise InputError("no inputs", remedy="give at least one")
        rows = [self._one(index, value) for index, value in enumerate(inputs)]
        return self.checked(np.stack(rows))

    def checked(self, batch: NDArray[Any]) -> NDArray[Any]:
        """The batch, once its type and shape are right and all its values finite."""
        if batch.dtype != np.dtype(self.dtype) or batch.shape[1:] != self.shape or not len(batch):
            raise InputError(f"inputs of {batch.dtype} {batch.shape[1:]}", remedy=f"give {self._words()}")
        if batch.dtype != np.uint8:
            finite = np.isfinite(batch).reshape(len(batch), -1).all(axis=1)
            if not finite.all():
                raise at_index(int(finite.argmin()), "a value is not finite", "leave out NaN and infinity")
        return batch

    def label(self, index: int, value: object, name: str) -> int | None:
        """A class, or None where it is not known."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < self.classes:
            raise at_index(index, f"{name} is {brief(value)}", f"give a whole number in 0..{self.classes - 1}")
        return value

    def scaled(self, batch: NDArray[Any]) -> NDArray[np.float32]:
        """As the model takes it."""
        return as_model_input(batch, self.mean, self.deviation)

    def _one(self, index: int, value: object) -> NDArray[Any]:
        if isinstance(value, str):
            return self._from_base64(index, value)
        try:
            numbers = np.array(value)
        except (ValueError, TypeError, OverflowError):
            numbers = np.array(None)
        if numbers.dtype.kind not in "uif":
            raise at_index(index, "the input is no list of numbers", f"give {self._words()}")
        if numbers.shape != self.shape:
            raise at_index(index, f"the input has shape {numbers.shape}", f"give {self._words()}")
        return self._cast(index, numbers)

    def _cast(self, index: int, numbers: NDArray[Any]) -> NDArray[Any]:
        if self.dtype == "uint8":
            if numbers.dtype.kind not in "ui" or numbers.min() < 0 or numbers.max() > 255:
                raise at_index(index, "a value is no pixel", "give whole numbers in 0..255")
        with np.errstate(over="ignore"):
            return numbers.astype(self.dtype)  # what is too large becomes infinite, and is refused as such

    def _from_base64(self, index: int, text: str) -> NDArray[Any]:
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise at_index(index, "the input is not base64", "encode its bytes as base64, or give lists") from None
        if len(content) != self.sample_bytes:
            remedy = f"{self._words()} is {self.sample_bytes} bytes"
            raise at_index(index, f"the input is {len(content)} bytes", remedy)
        return np.frombuffer(content, dtype=np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)

    def _words(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def at_index(index: int, found: str, remedy: str) -> InputError:
    """A complaint about one sample of a batch."""
    return InputError(f"sample {index}: {found}", remedy=remedy)


def kind_of(task: Task, declared: Mapping[str, Any]) -> Kind:
    """What a task's model takes: from the task where it says so, and from what was declared."""
    samples = getattr(task, "samples", None)
    known = {"shape": samples.shape, "classes": samples.classes} if samples is not None else {}
    try:
        kind = msgspec.convert({**known, **declared}, Kind)
    except msgspec.ValidationError as error:
        raise complaint(error, Kind, "input") from error
    for key, value in known.items():
        if getattr(kind, key) != value:
            raise InputError(
                f"the {key} of task {task.name} is {value}, not {getattr(kind, key)}", remedy="leave it out"
            )
    return kind
