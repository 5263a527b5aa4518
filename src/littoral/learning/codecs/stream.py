"""What one sender remembers about one destination: mostly, what it still owes."""

from __future__ import annotations

from typing import Any

from littoral.errors import InputError
from littoral.learning.codecs.codec import Codec, Turn
from littoral.learning.codecs.narrow import DENSE
from littoral.learning.phantom import Phantom


class Stream:
    """Error feedback (Seide et al., 2014; Karimireddy et al., 2019): what a message leaves out is in the next.

    a = residual + vector; send C(a); residual = a - decode(C(a)). So all that was ever sent and the residual
    together are all that was ever given, up to float32. One stream per destination: a residual shared by links that
    carry different subsets is wrong. Without ``feedback`` what a message leaves out is forgotten. A vector that
    includes the step size needs no care when that changes; otherwise ``rescale``.

    >>> import torch
    >>> from littoral.learning.codecs.topk import TopK
    >>> stream = Stream(TopK(0.5))
    >>> payload = stream.encode(torch.tensor([3.0, 1.0, -2.0, 0.5]))
    >>> stream.codec.decode(payload, 4).tolist(), stream.residual.tolist()
    ([3.0, 0.0, -2.0, 0.0], [0.0, 1.0, 0.0, 0.5])
    """

    def __init__(self, codec: Codec, feedback: bool = True) -> None:
        if feedback and not codec.contracts:
            remedy = "use it without feedback, or choose one that loses less (topk, int8, more levels)"
            raise InputError(
                f"codec {codec.name!r} may lose more than it is given, so residuals would grow", remedy=remedy
            )
        self.codec, self.feedback = codec, feedback
        self.residual: Any = None  # what is owed, as long as the vectors; None before the first of them
        self.messages = 0  # sent so far
        self._length = 0
        self._previous: Any = None

    def encode(self, vector: Any, *, weights: Any = None, threshold: float | None = None) -> Any:
        """The payload of what is owed and this; the vector itself is not changed."""
        owed = self._owed(vector)
        payload = self.codec.encode(owed, self._turn(weights, threshold))
        self._sent(payload)
        self.residual = self._left(owed, payload)
        return payload

    def flush(self) -> Any:
        """A dense payload of everything owed, which any codec decodes; None before the first vector.

        For a sender that leaves, or for a last message: residuals that stay behind are lost.
        """
        if self.residual is None:
            return None
        payload = DENSE.encode(self.residual)
        self.residual = self._zeros(self.residual)
        return payload

    def credit(self, payload: Any) -> None:
        """A message is known to be lost: what it carried is owed again."""
        if not self.messages:
            raise ValueError("a stream that sent nothing has lost nothing")
        lost = self.codec.decode(payload, self._length)
        self.residual = lost if self.residual is None else self.residual + lost

    def rescale(self, factor: float) -> None:
        """Change the unit of what is owed, as when vectors are gradients and the step size changes."""
        if self.residual is not None:
            self.residual = self.residual * factor

    def _owed(self, vector: Any) -> Any:
        if self.messages and len(vector) != self._length:
            raise ValueError(f"a vector of {len(vector)} in a stream of vectors of {self._length}")
        self._length = len(vector)
        return vector if self.residual is None else self.residual + vector

    def _turn(self, weights: Any = None, threshold: float | None = None) -> Turn:
        return Turn(counter=self.messages, previous=self._previous, weights=weights, threshold=threshold)

    def _sent(self, payload: Any) -> None:
        self.messages += 1
        if self.codec.warm and not isinstance(payload, Phantom):
            self._previous = payload

    def _left(self, owed: Any, payload: Any) -> Any:
        if not self.feedback:
            return None
        return owed - self.codec.decode(payload, self._length)

    @staticmethod
    def _zeros(vector: Any) -> Any:
        return vector if isinstance(vector, Phantom) else vector.new_zeros(len(vector))
