"""Coded gradients on their way to servers: a stream per link, so that what a message leaves out is in the next.

``auto`` gives each link the mildest codec whose message crosses while the worker computes its next step. ``dgc`` is
deep gradient compression: a thousandth crosses, and momentum is kept by the worker, where it is not lost with the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from littoral.learning.codecs import Codec, DgcStream, Stream, choose_codec, make_codec
from littoral.learning.codecs.choice import Use
from littoral.learning.codecs.dgc import RATIO
from littoral.learning.task import Recipe
from littoral.planning.plan import Server
from littoral.worlds.node import Gradient, Node

DGC_MOMENTUM = 0.9


def check_push_codec(word: str) -> None:
    """Refuse what is no codec for gradients."""
    if word not in ("auto", "dgc"):
        make_codec(word)


def without_momentum(recipe: Recipe) -> Recipe:
    """What is left for servers to do when workers keep the momentum: plain steps that lead as far in the end."""
    lr = recipe.lr * (1.0 - DGC_MOMENTUM) / (1.0 - recipe.momentum)
    return replace(recipe, momentum=0.0, nesterov=False, lr=lr)


class Pushes:
    """A worker's gradients, coded for every server."""

    def __init__(self, word: str, node: Node) -> None:
        self._word, self._node = word, node
        self._streams = {server.name: self._stream(server) for server in node.plan.servers}
        self._samples = 0  # whose mean gradients residuals are

    def encode(self, gradient: Gradient) -> dict[str, Any]:
        """What each server gets of a mean gradient."""
        if self._word == "none":
            return {s.name: gradient.vector[s.start : s.stop] for s in self._node.plan.servers}
        factor, self._samples = (self._samples or gradient.samples) / gradient.samples, gradient.samples
        for stream in self._streams.values():
            stream.rescale(factor)
            if isinstance(stream, DgcStream) and gradient.lease is not None:
                stream.epoch = gradient.lease.spans[0].epoch
        return {
            s.name: self._streams[s.name].encode(gradient.vector[s.start : s.stop]) for s in self._node.plan.servers
        }

    def _stream(self, server: Server) -> Stream:
        if self._word == "dgc":
            return DgcStream(momentum=DGC_MOMENTUM)
        codec = push_codec(self._word, self._node, self._node.name, server)
        return Stream(codec, feedback=codec.contracts)


def push_codec(word: str, node: Node, worker: str, server: Server) -> Codec:
    """The codec of the link from a worker to a server; both ends come to the same."""
    if word == "dgc":
        return make_codec(f"topk:{RATIO}")
    if word != "auto":
        return make_codec(word)
    planned = node.plan.worker(worker)
    seconds = planned.batch / planned.samples_per_s
    rate = node.plan.rates[worker][server.name] / len(node.plan.workers)  # all share the server's port
    return make_codec(choose_codec(rate, 4 * (server.stop - server.start), seconds, Use.PUSH))
