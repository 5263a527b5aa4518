"""A codec turns one flat float32 vector into one flat uint8 tensor and back.

Codecs are frozen records without memory, shared by everybody; what must be remembered from message to message
(residuals, counters, warm starts) lives in a ``Stream``. A vector that is only a weight (``Phantom``) is coded into
a weight: that of the payload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from littoral.learning.codecs.frame import HEADER_BYTES, Form, Header, Tag, cast, measured, opened, seal
from littoral.learning.phantom import Phantom

if TYPE_CHECKING:
    from torch import Tensor


class Family(StrEnum):
    """What a codec does to a vector, as far as its safe uses depend on it."""

    EXACT = "exact"
    FLOAT = "float"  # a narrower float
    BYTE = "byte"  # eight bits per element, a scale per block
    NIBBLE = "nibble"  # four bits per element, a scale per block
    STOCHASTIC = "stochastic"  # unbiased rounding
    SIGN = "sign"
    SPARSE = "sparse"  # the sender chooses which elements cross
    SHARED = "shared"  # elements that all nodes agree on cross
    LOWRANK = "low-rank"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Turn:
    """What an encoder may use beside the vector; all of it optional but for the codecs that say so."""

    counter: int = 0  # the number of this message in its stream: randomness is derived from it
    previous: Any = None  # the payload before this one, where the codec starts from it
    weights: Any = None  # the parameters that the vector will be added to
    threshold: float | None = None  # instead of the codec's own


FIRST = Turn()


class Codec(Protocol):
    """One way to make a vector smaller."""

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        ...

    @property
    def lossless(self) -> bool:
        """Whether every vector comes back bit for bit."""
        ...

    @property
    def contracts(self) -> bool:
        """Whether what is lost is smaller than the vector (on average), so that error feedback stays bounded."""
        ...

    @property
    def warm(self) -> bool:
        """Whether it starts from the payload before."""
        ...

    @property
    def family(self) -> Family:
        """What it does to a vector."""
        ...

    def encode(self, vector: Any, turn: Turn = FIRST) -> Any:
        """The payload: uint8, flat; of a Phantom, a Phantom of as many bytes."""
        ...

    def decode(self, payload: Any, length: int) -> Any:
        """A vector of ``length`` elements; ValueError for any payload that is not one of such a vector.

        Payloads of ``Dense`` are understood by every codec: a stream is flushed with one.
        """
        ...

    def nbytes(self, length: int) -> int:
        """The size of a payload: exact where it depends on the length alone, otherwise a prediction."""
        ...


class Framed(ABC):
    """What all codecs share: phantoms, the header, and checks of both."""

    __slots__ = ()
    tag: ClassVar[Tag]
    lossless: ClassVar[bool] = False
    warm: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The word a user writes for it."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """What it does to a vector."""

    @property
    def contracts(self) -> bool:
        """Most codecs lose less than they were given."""
        return True

    def encode(self, vector: Any, turn: Turn = FIRST) -> Any:
        """The payload."""
        if isinstance(vector, Phantom):
            return Phantom(self.nbytes(len(vector)), 1)
        return self.pack(_flat(vector), turn)

    def decode(self, payload: Any, length: int) -> Any:
        """The vector."""
        if isinstance(payload, Phantom):
            return Phantom(length)
        header, body = opened(payload)
        if header.tag == Tag.DENSE:
            return floats(body, length)
        if header.tag != self.tag:
            raise ValueError(f"a payload of codec {header.tag} where {self.tag.name} is spoken")
        return self.unpack(header, body, length)

    @abstractmethod
    def nbytes(self, length: int) -> int:
        """The size of a payload."""

    @abstractmethod
    def pack(self, vector: Tensor, turn: Turn) -> Tensor:
        """The payload of a real vector."""

    @abstractmethod
    def unpack(self, header: Header, body: Tensor, length: int) -> Tensor:
        """The vector of a body whose tag was right and whose everything else is unchecked."""


class Quantiser(Framed):
    """A codec in which every element crosses, so that sizes depend on the length alone."""

    __slots__ = ()

    def nbytes(self, length: int) -> int:
        """The size of a payload."""
        return HEADER_BYTES + self.body_bytes(length)

    def pack(self, vector: Tensor, turn: Turn) -> Tensor:
        """The payload of a real vector."""
        return seal(Header(tag=self.tag, values=self.tag, count=turn.counter), *self.squeeze(vector, turn))

    def unpack(self, header: Header, body: Tensor, length: int) -> Tensor:
        """The vector of a body."""
        if header.form != Form.WHOLE:
            raise ValueError(f"a payload of {self.tag.name} holds the whole vector, not form {header.form}")
        return self.restore(measured(body, self.body_bytes(length)), length)

    @abstractmethod
    def body_bytes(self, length: int) -> int:
        """Bytes without the header."""

    @abstractmethod
    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """The parts of the body, scales first so that numbers lie where they may."""

    @abstractmethod
    def restore(self, body: Tensor, length: int) -> Tensor:
        """The vector of a body of the right size."""


def floats(body: Tensor, length: int) -> Tensor:
    """A float32 vector of its own from its bytes."""
    import torch

    return cast(measured(body, 4 * length), torch.float32).clone()


def _flat(vector: Any) -> Tensor:
    import torch

    if not isinstance(vector, torch.Tensor) or vector.ndim != 1 or vector.dtype is not torch.float32:
        raise ValueError("a codec takes one flat float32 vector")
    return vector.detach().contiguous()
