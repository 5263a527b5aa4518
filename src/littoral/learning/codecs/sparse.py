"""Some elements cross, the others stay: selection is the codec's, how it lies in bytes is written here once.

Which elements are held is written as int32 indices or as a bitmap, whichever is smaller; when even that is no
smaller than the whole vector, the whole vector is sent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.errors import InputError
from littoral.learning.codecs.bits import pack_bits, unpack_bits
from littoral.learning.codecs.codec import FIRST, Family, Framed, Quantiser, Turn
from littoral.learning.codecs.frame import HEADER_BYTES, Form, Header, Tag, cast, measured, opened, seal
from littoral.learning.codecs.narrow import DENSE

if TYPE_CHECKING:
    from torch import Tensor


class Sparsifier(Framed):
    """A codec that sends some of the elements; their values are coded by a quantiser."""

    __slots__ = ()
    bitmaps: ClassVar[bool] = True  # whether a bitmap may say which

    @property
    def family(self) -> Family:
        """The sender chooses."""
        return Family.SPARSE

    @abstractmethod
    def kept(self, length: int) -> int:
        """How many elements cross: exact or predicted, as the codec says."""

    @abstractmethod
    def select(self, vector: Tensor, turn: Turn) -> Tensor:
        """The ascending indices of the elements that cross."""

    def nbytes(self, length: int) -> int:
        """The size of a payload with float32 values."""
        return self.nbytes_with(length, DENSE)

    def nbytes_with(self, length: int, values: Quantiser) -> int:
        """The size of a payload with values of another kind."""
        return self.size(self.kept(length), length, values)[0]

    def size(self, kept: int, length: int, values: Quantiser = DENSE) -> tuple[int, Form]:
        """Bytes and form of a payload that holds ``kept`` of ``length`` elements."""
        ways = [(4 * kept, Form.INDICES), (-(-length // 8), Form.BITMAP)][: 2 if self.bitmaps else 1]
        where, form = min(ways)
        sparse, whole = where + values.body_bytes(kept), values.body_bytes(length)
        return (HEADER_BYTES + whole, Form.WHOLE) if sparse >= whole else (HEADER_BYTES + sparse, form)

    def pack(self, vector: Tensor, turn: Turn) -> Tensor:
        """The payload with float32 values."""
        return self.pack_with(vector, turn, DENSE)

    def pack_with(self, vector: Tensor, turn: Turn, values: Quantiser) -> Tensor:
        """The payload with values of another kind."""
        indices = self.select(vector, turn)
        _, form = self.size(len(indices), len(vector), values)
        header = Header(tag=self.tag, form=form, values=values.tag, count=len(indices))
        if form is Form.WHOLE:
            return seal(header, *values.squeeze(vector, turn))
        where = indices.int() if form is Form.INDICES else pack_bits(_mask(indices, len(vector)))
        return seal(header, where, *values.squeeze(vector[indices], turn))

    def unpack(self, header: Header, body: Tensor, length: int) -> Tensor:
        """The vector of float32 values."""
        return self.unpack_with(header, body, length, DENSE)

    def unpack_with(self, header: Header, body: Tensor, length: int, values: Quantiser) -> Tensor:
        """The vector of values of another kind; zero where nothing crossed."""
        import torch

        if header.values != values.tag:
            raise ValueError(f"values of codec {header.values} where {values.tag.name} is spoken")
        if header.form == Form.WHOLE:
            return values.restore(measured(body, values.body_bytes(length)), length)
        indices, rest = self.read(header, body, length)
        coded = measured(rest, values.body_bytes(len(indices)))
        vector = torch.zeros(length, device=body.device)
        vector[indices] = values.restore(coded, len(indices))
        return vector

    def read(self, header: Header, body: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """The indices a payload holds and what follows them."""
        if header.count > length:
            raise ValueError(f"{header.count} elements of a vector of {length}")
        if header.form == Form.INDICES:
            return _listed(body, header.count, length)
        if header.form == Form.BITMAP:
            return _mapped(body, header.count, length)
        raise ValueError(f"a payload of {self.tag.name} in unknown form {header.form}")

    def held(self, payload: Any, length: int) -> Any:
        """Which elements a payload of this codec holds: ascending indices, or all as a slice."""
        header, body = opened(payload)
        if header.tag == Tag.DENSE or header.form == Form.WHOLE:
            return slice(0, length)
        return self.read(header, body, length)[0]


@dataclass(frozen=True, slots=True)
class Chain(Framed):
    """A sparsifier whose values a quantiser codes: ``Chain(TopK(0.01), Int8())`` is "topk:0.01+int8"."""

    sparse: Sparsifier
    quantiser: Quantiser

    def __post_init__(self) -> None:
        if not isinstance(self.sparse, Sparsifier) or not isinstance(self.quantiser, Quantiser):
            remedy = "put what drops elements first and what rounds them second, as in topk:0.01+int8"
            raise InputError("codecs that cannot be chained", remedy=remedy, key="codec")

    @property
    def tag(self) -> Tag:  # type: ignore[override]
        """That of the sparsifier; the header names the quantiser too."""
        return self.sparse.tag

    @property
    def name(self) -> str:
        """The words a user writes for it."""
        return f"{self.sparse.name}+{self.quantiser.name}"

    @property
    def contracts(self) -> bool:
        """If both do."""
        return self.sparse.contracts and self.quantiser.contracts

    @property
    def family(self) -> Family:
        """Values with scales of their own cannot be added up, wherever they stand."""
        alike = self.quantiser.family in (Family.EXACT, Family.FLOAT)
        return self.sparse.family if alike else Family.SPARSE

    def nbytes(self, length: int) -> int:
        """The size of a payload."""
        return self.sparse.nbytes_with(length, self.quantiser)

    def pack(self, vector: Tensor, turn: Turn = FIRST) -> Tensor:
        """The payload of a real vector."""
        return self.sparse.pack_with(vector, turn, self.quantiser)

    def unpack(self, header: Header, body: Tensor, length: int) -> Tensor:
        """The vector of a body."""
        return self.sparse.unpack_with(header, body, length, self.quantiser)


def _mask(indices: Tensor, length: int) -> Tensor:
    import torch

    mask = torch.zeros(length, dtype=torch.bool, device=indices.device)
    mask[indices] = True
    return mask


def _listed(body: Tensor, count: int, length: int) -> tuple[Tensor, Tensor]:
    import torch

    if len(body) < 4 * count:
        raise ValueError(f"{count} indices in {len(body)} bytes")
    indices = cast(body[: 4 * count], torch.int32).long()
    if count and not (indices[0] >= 0 and indices[-1] < length and bool((indices[1:] > indices[:-1]).all())):
        raise ValueError(f"indices that do not ascend within a vector of {length}")
    return indices, body[4 * count :]


def _mapped(body: Tensor, count: int, length: int) -> tuple[Tensor, Tensor]:
    border = -(-length // 8)
    if len(body) < border:
        raise ValueError(f"a bitmap of {length} elements in {len(body)} bytes")
    indices = unpack_bits(body[:border], length).nonzero().view(-1)
    if len(indices) != count:
        raise ValueError(f"a bitmap of {len(indices)} elements that announces {count}")
    return indices, body[border:]
