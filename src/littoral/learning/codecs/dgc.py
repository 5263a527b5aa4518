"""Deep Gradient Compression: error feedback of a thousandth that does not forget momentum."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from littoral.errors import InputError
from littoral.learning.codecs.parameters import check_count, check_share
from littoral.learning.codecs.sparse import Chain
from littoral.learning.codecs.stream import Stream
from littoral.learning.codecs.topk import TopK
from littoral.learning.phantom import Phantom

RATIO = 0.001
WARMUP = (0.25, 0.0625, 0.015625, 0.004, 0.001)  # density by epoch


class DgcStream(Stream):
    """Lin et al., 2018. Gradients in, momentum at the sender: the receiver takes plain steps, or momentum acts twice.

    u = m u + g; v = v + u; the largest of v cross, and both v and u are zeroed there (momentum factor masking, which
    keeps a stale direction from being followed after it was sent). Gradients are clipped before they are added up,
    at ``clip`` / sqrt(workers) each. In the first epochs more crosses: set ``epoch`` when one begins. Biases and
    norms, which the paper sends dense, are the caller's to send apart.
    """

    def __init__(
        self,
        codec: TopK | Chain | None = None,
        momentum: float = 0.9,
        clip: float | None = None,
        workers: int = 1,
        warmup: tuple[float, ...] = WARMUP,
        nesterov: bool = False,
    ) -> None:
        self._final = codec or TopK(RATIO)
        self._sparse = _top_k(self._final)
        super().__init__(self._final)
        if isinstance(momentum, bool) or not 0 <= momentum < 1:
            raise InputError(f"momentum is {momentum!r}", remedy="give a number of at least 0 and below 1")
        if clip is not None:
            check_share("clip", clip, math.inf)
        check_count("workers", workers, 1)
        for ratio in warmup:
            check_share("density of a warm-up epoch", ratio)
        self.momentum, self.nesterov, self.warmup = momentum, nesterov, warmup
        self.limit = None if clip is None else clip / math.sqrt(workers)
        self.velocity: Any = None  # u of the paper; v is the residual
        self.epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch that density follows."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        ratio = self.warmup[epoch] if epoch < len(self.warmup) else self._sparse.ratio
        top = replace(self._sparse, ratio=ratio)
        self.codec = replace(self._final, sparse=top) if isinstance(self._final, Chain) else top

    def encode(self, vector: Any, *, weights: Any = None, threshold: float | None = None) -> Any:
        """The payload of the velocities that matter now; ``vector`` is a gradient."""
        if isinstance(vector, Phantom):
            return super().encode(vector)
        owed = self._owed(self._moved(self._clipped(vector)))
        payload = self.codec.encode(owed, self._turn())
        self._sent(payload)
        self.residual = self._left(owed, payload)
        self.velocity[self._sparse.held(payload, len(vector))] = 0
        return payload

    def flush(self) -> Any:
        """Everything owed, densely; momentum ends with it."""
        if self.velocity is not None:
            self.velocity.zero_()
        return super().flush()

    def _clipped(self, gradient: Any) -> Any:
        norm = float(gradient.norm()) if self.limit is not None else 0.0
        return gradient * (self.limit / norm) if self.limit is not None and norm > self.limit else gradient

    def _moved(self, gradient: Any) -> Any:
        """What is added to the residual: the momentum-corrected gradient."""
        if self.velocity is None:
            self.velocity = gradient.new_zeros(len(gradient))
        if self.nesterov:
            self.velocity.add_(gradient).mul_(self.momentum)
            return self.velocity + gradient
        self.velocity.mul_(self.momentum).add_(gradient)
        return self.velocity


def _top_k(codec: object) -> TopK:
    sparse = codec.sparse if isinstance(codec, Chain) else codec
    if not isinstance(sparse, TopK):
        raise InputError(
            "deep gradient compression with something else than topk", remedy="give TopK(0.001)", key="codec"
        )
    return sparse
