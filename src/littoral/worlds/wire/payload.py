"""A message's vector as raw bytes and back: tensors, arrays and bytes, without copies where memory allows.

The sender lends the vector's own memory, so a vector must not change until it was acknowledged. The receiver's
tensor or array stands on the memory the bytes arrived in; that memory is its own, so it may be kept and changed.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

_TORCH_BYTES = {
    "uint8": 1, "int8": 1, "bool": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "int64": 8, "float64": 8, "complex64": 8, "complex128": 16, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
_NUMPY_DTYPE = re.compile(r"[<>|][biufc](1|2|4|8|16)")  # plain numbers only: nothing that holds Python objects
_ALONE = 65536  # smaller vectors are copied out of the receive buffer that they share with their neighbours

Length = Annotated[int, msgspec.Meta(ge=0)]


class Form(msgspec.Struct, frozen=True, array_like=True):
    """What the bytes of a vector are."""

    family: Literal["torch", "numpy", "bytes"]
    dtype: str
    shape: Annotated[tuple[Length, ...], msgspec.Meta(max_length=32)]

    @property
    def nbytes(self) -> int:
        """How many bytes it must have; raises ValueError for a form that is not allowed."""
        return math.prod(self.shape) * self._item_bytes

    @property
    def _item_bytes(self) -> int:
        if self.family == "torch" and self.dtype in _TORCH_BYTES:
            return _TORCH_BYTES[self.dtype]
        if self.family == "numpy" and _NUMPY_DTYPE.fullmatch(self.dtype):
            return np.dtype(self.dtype).itemsize
        if self.family == "bytes" and not self.dtype and len(self.shape) == 1:
            return 1
        raise ValueError(f"no vector of {self.family} {self.dtype!r} may cross the wire")


def lend(vector: Any) -> tuple[Form | None, memoryview]:
    """The form of a vector and a view of its bytes; copies only what is not contiguous on the CPU."""
    if vector is None:
        return None, memoryview(b"")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(vector, torch.Tensor):
        return _lend_tensor(torch, vector)
    if isinstance(vector, np.ndarray):
        return _checked(Form("numpy", vector.dtype.str, vector.shape)), _bytes_of(np.ascontiguousarray(vector))
    if isinstance(vector, bytes | bytearray | memoryview):
        view = memoryview(vector)
        flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
        return Form("bytes", "", (flat.nbytes,)), flat
    raise TypeError(f"a vector is a tensor, a numpy array, bytes or None, not {type(vector).__name__}")


def _lend_tensor(torch: Any, tensor: Any) -> tuple[Form, memoryview]:
    form = _checked(Form("torch", str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)))
    if tensor.dtype is torch.float32 and tensor.ndim == 1 and tensor.is_contiguous() and not tensor.requires_grad:
        return form, memoryview(tensor.numpy()).cast("B")  # what nearly all vectors are
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return form, _bytes_of(flat.view(torch.uint8).numpy())


def _checked(form: Form) -> Form:
    _ = form.nbytes
    return form


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


def rebuild(form: Form | None, buffer: Any) -> Any:
    """The vector that ``lend`` saw, standing on ``buffer`` where that is aligned and worth keeping alive."""
    if form is None:
        return None
    if form.family == "bytes":
        return bytes(buffer)
    data = np.frombuffer(buffer, np.uint8)
    if data.nbytes < _ALONE or data.ctypes.data % 8:
        data = data.copy()
    if form.family == "numpy":
        return data.view(np.dtype(form.dtype)).reshape(form.shape)
    import torch

    dtype = getattr(torch, form.dtype)
    if not data.nbytes:
        return torch.empty(form.shape, dtype=dtype)
    vector = torch.frombuffer(data, dtype=dtype)
    return vector if len(form.shape) == 1 else vector.reshape(form.shape)
