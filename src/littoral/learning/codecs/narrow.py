"""Floats as they are, or in half the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.codec import Family, Quantiser, Turn, floats
from littoral.learning.codecs.frame import Tag, cast

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Dense(Quantiser):
    """The vector itself: four bytes per element."""

    tag: ClassVar[Tag] = Tag.DENSE
    family: ClassVar[Family] = Family.EXACT
    lossless: ClassVar[bool] = True
    name: ClassVar[str] = "none"

    def body_bytes(self, length: int) -> int:
        """Four bytes per element."""
        return 4 * length

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """The vector."""
        return (vector,)

    def restore(self, body: Tensor, length: int) -> Tensor:
        """The vector."""
        return floats(body, length)


class _Narrow(Quantiser):
    __slots__ = ()
    dtype: ClassVar[str]

    def body_bytes(self, length: int) -> int:
        """Two bytes per element."""
        return 2 * length

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """Rounded to nearest; what is too large becomes the largest finite number, never infinity."""
        import torch

        dtype = self._dtype()
        most = torch.finfo(dtype).max
        return (vector.clamp(-most, most).to(dtype),)

    def restore(self, body: Tensor, length: int) -> Tensor:
        """Widened again."""
        return cast(body, self._dtype()).float()

    def _dtype(self) -> Any:
        import torch

        return getattr(torch, self.dtype)


@dataclass(frozen=True, slots=True)
class Half(_Narrow):
    """IEEE float16: relative error at most 2**-11 between 6.1e-5 and 65504, where it saturates."""

    tag: ClassVar[Tag] = Tag.HALF
    family: ClassVar[Family] = Family.FLOAT
    name: ClassVar[str] = "float16"
    dtype: ClassVar[str] = "float16"


@dataclass(frozen=True, slots=True)
class Bfloat(_Narrow):
    """bfloat16: the range of float32, relative error at most 2**-8."""

    tag: ClassVar[Tag] = Tag.BFLOAT
    family: ClassVar[Family] = Family.FLOAT
    name: ClassVar[str] = "bfloat16"
    dtype: ClassVar[str] = "bfloat16"


DENSE = Dense()
