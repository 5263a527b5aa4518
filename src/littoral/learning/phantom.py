"""A vector that weighs something but holds nothing, and a model of it: timing without mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Phantom:
    """As long as a real vector on the wire; arithmetic on it costs nothing and changes nothing."""

    __slots__ = ("length", "nbytes", "width")

    def __init__(self, length: int, width: int = 4) -> None:
        self.length, self.width, self.nbytes = length, width, width * length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: slice) -> Phantom:
        start, stop, _ = index.indices(self.length)
        return self if stop - start == self.length else Phantom(stop - start, self.width)

    def __setitem__(self, index: slice, value: Any) -> None:
        """Nothing to change."""

    def clone(self) -> Phantom:
        """Itself: there is nothing to protect."""
        return self

    def half(self) -> Phantom:
        """Half as heavy."""
        return Phantom(self.length, 2)

    def float(self) -> Phantom:
        """As heavy as vectors are."""
        return Phantom(self.length)

    def _same(self, *_: Any, **__: Any) -> Phantom:
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = __radd__ = __rmul__ = _same
    __iadd__ = __isub__ = __imul__ = __itruediv__ = _same
    add_ = sub_ = mul_ = div_ = copy_ = lerp_ = _same


class PhantomModel:
    """A model of which only the size is known."""

    __slots__ = ("vector",)

    def __init__(self, length: int) -> None:
        self.vector = Phantom(length)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """One tensor."""
        return ((0, len(self.vector)),)

    @property
    def trained(self) -> int:
        """All of it."""
        return len(self.vector)

    def gradient(self, spans: Sequence[Any]) -> tuple[Phantom, None]:
        """A gradient's weight."""
        return self.vector, None

    def empty(self) -> Phantom:
        """The gradient of no samples."""
        return self.vector

    def load(self, vector: Any, start: int = 0) -> None:
        """Nothing to load."""

    def snapshot(self) -> Phantom:
        """The vector: it never changes."""
        return self.vector

    def mean(self, parts: Sequence[tuple[Any, float]]) -> Any:
        """Any of them: they weigh the same."""
        return parts[0][0]

    def step(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        """Nothing to move."""

    def forget(self) -> None:
        """Nothing is remembered."""

    def state(self) -> dict[str, Any]:
        """Nothing to save."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""
