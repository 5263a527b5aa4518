"""Where features go: datagrams become frames again, and each frame is stitched to the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from littoral.apps.features import BadDatagram, Features, Part, joined, read_datagram
from littoral.apps.registry import Address

_MOST_SOURCES = 256  # addresses can be invented: beyond this many the one met first is forgotten
_COMPARED = 64  # features looked for in the frame before: plenty for one shift
_DISTINCT = 0.8  # a match counts if the second best is clearly worse (Lowe 2004)
_FEWEST = 4


@dataclass
class Source:
    """One camera: the frame being put together, the last whole one, and how far the picture has moved since."""

    frame: int = -1
    parts: dict[int, Part] = field(default_factory=dict)
    last: Features | None = None
    frames: int = 0
    moved: tuple[float, float] = (0.0, 0.0)


class Stitcher:
    """Takes datagrams of any number of cameras, in any order; counts what came and what cannot be used."""

    def __init__(self) -> None:
        self.sources: dict[Address, Source] = {}
        self.frames = self.bytes = 0
        self.incomplete = 0  # frames of which a datagram was lost
        self.unmatched = 0  # frames that could not be stitched to the one before
        self.malformed = 0

    def take(self, address: Address, datagram: bytes) -> None:
        """One datagram from one address."""
        try:
            part = read_datagram(datagram)
        except BadDatagram:
            self.malformed += 1
            return
        self.bytes += len(datagram)
        source = self._source(address)
        if part.frame > source.frame:
            self.incomplete += bool(source.parts)
            source.frame, source.parts = part.frame, {}
        elif part.frame < source.frame or not source.parts:
            return  # of a frame that was given up, or is complete
        if any(other.parts != part.parts for other in islice(source.parts.values(), 1)):
            self.malformed += 1
            return
        source.parts[part.number] = part
        if len(source.parts) >= part.parts:
            self._finish(source)

    def _source(self, address: Address) -> Source:
        if address not in self.sources and len(self.sources) >= _MOST_SOURCES:
            del self.sources[next(iter(self.sources))]
        return self.sources.setdefault(address, Source())

    def _finish(self, source: Source) -> None:
        features = joined([source.parts[number] for number in sorted(source.parts)])
        source.parts = {}
        self.frames += 1
        source.frames += 1
        if source.last is not None:
            shift = find_shift(source.last, features)
            if shift is None:
                self.unmatched += 1
            else:
                source.moved = (source.moved[0] + shift[0], source.moved[1] + shift[1])
        source.last = features


def find_shift(before: Features, after: Features) -> tuple[float, float] | None:
    """How far the picture moved, in pixels: the median over features found in both; None if there are too few."""
    if len(before) < 2 or not len(after):
        return None
    some = after.descriptors[:_COMPARED].astype(np.float32)
    squares = _distances(some, before.descriptors.astype(np.float32))
    best, second = np.partition(squares, 1, axis=1)[:, :2].T
    clear = best < _DISTINCT**2 * second
    if clear.sum() < _FEWEST:
        return None
    found = squares.argmin(axis=1)[clear]
    x, y = np.median(after.points[:_COMPARED][clear, :2] - before.points[found, :2], axis=0)
    return float(x), float(y)


def _distances(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return squares


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, stitcher: Stitcher) -> None:
        self._stitcher = stitcher

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._stitcher.take(addr, data)


@asynccontextmanager
async def open_sink(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[Address, Stitcher]]:
    """A stitcher behind a UDP socket of this event loop, and the socket's address; port 0 takes any free one."""
    stitcher, loop = Stitcher(), asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Receiver(stitcher), local_addr=(host, port))
    try:
        yield transport.get_extra_info("sockname")[:2], stitcher
    finally:
        transport.close()
        await asyncio.sleep(0)  # the socket is closed in the loop's next turn
