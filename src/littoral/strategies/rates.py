"""What each outgoing link carries, measured while it is used.

A message that is to be timed travels between two marks. They leave together and arrive in order, so what lies between
their arrivals is how long the message took: no clock of another machine and no latency is in it. The receiver reports
that back at once. The first mark also says when it left; how much later than the quickest ever it arrives is how long
it stood in queues. What was measured is a fair share of whatever else was crossing the same links meanwhile.

A link that becomes slow says so late, since reports stand in queues too. So ``room`` counts what is under way: when
reports stay away, there is soon no room.

Costs three messages without payload for each that is timed. Messages of a few kilobytes say little on fast links,
where both marks may come out of one read; the rate is bytes over seconds of several, so that long ones count most.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

from littoral.continuum.link import HEADER_BYTES
from littoral.worlds.node import Message, Node

FRAMING_BYTES = 3 * HEADER_BYTES  # what timing a message costs its link: its own header, and two marks
_KEEP = 0.7  # of what was measured before, with each new message


class LinkMark(Message, frozen=True):
    """Stands before a message that is timed (``after`` 0), or behind it: then ``after`` so many bytes."""

    after: int
    sent_s: float


class LinkReport(Message, frozen=True):
    """Your last timed message: bytes, how long they took, and how long they had stood in queues before."""

    carried: int
    seconds: float
    late_s: float


class Rates:
    """A node's outgoing links. Until the first report a link's rate is what the plan says (``by_rate``).

    Plans say what a link carries alone; ``sharing`` is how many messages are likely to share it, which is better too
    many: rates that prove better are found out at once, a queue takes long to go. Made at the beginning of a program;
    the other ends must have one too, since they answer.
    """

    def __init__(self, node: Node, sharing: int = 1) -> None:
        self._node = node
        self._planned = {peer: rate / sharing for peer, rate in node.plan.rates.get(node.name, {}).items()}
        self._sums: dict[str, tuple[float, float]] = {}  # bytes and seconds, old ones fading
        self._under_way: dict[str, deque[tuple[float, int]]] = defaultdict(deque)  # when it left, and bytes
        self._usual: dict[str, float] = {}  # seconds from sending to the report, queues of our own left out
        self._opened: dict[str, tuple[float, float]] = {}  # when the first mark came, and how late it was
        self._quickest: dict[str, float] = {}
        node.spawn(self._listen())

    def rate(self, peer: str) -> float:
        """Bytes per second towards a peer."""
        carried, seconds = self._sums.get(peer, (0.0, 0.0))
        return carried / seconds if seconds else self._planned.get(peer, math.inf)

    def room(self, peer: str, seconds: float) -> float:
        """Bytes that a link takes in so many seconds, less what is there already: below zero where that is too much.

        As much may be there as crosses while a report usually takes to come, and once more, for reports are uneven.
        """
        rate, under_way = self.rate(peer), self._under_way[peer]
        if peer not in self._usual or math.isinf(rate):
            return rate * seconds
        surplus = sum(size for _, size in under_way) - rate * (self._usual[peer] + seconds)
        return rate * seconds - max(0.0, surplus)

    async def send(self, peer: str, message: Message) -> None:
        """Send a message and have it timed."""
        node, size = self._node, self._crossing(message) + HEADER_BYTES
        self._under_way[peer].append((node.now, size))
        await node.send(peer, LinkMark(0, node.now))
        await node.send(peer, message)
        await node.send(peer, LinkMark(size, node.now))

    def _crossing(self, message: Message) -> int:
        """Its bytes on the wire: vectors that are not coded cross in half with ``wire: float16``."""
        vector = getattr(message, "vector", None)
        if vector is None or self._node.plan.wire != "float16" or vector.nbytes != 4 * len(vector):
            return message.size
        return message.size - int(vector.nbytes) // 2

    async def _listen(self) -> None:
        while True:
            received = await self._node.receive(LinkMark, LinkReport)
            match received.message:
                case LinkReport() as report:
                    self._learn(received.sender, report)
                case LinkMark() as mark:
                    await self._time(received.sender, mark)

    async def _time(self, peer: str, mark: LinkMark) -> None:
        now = self._node.now
        if mark.after == 0:
            delay = now - mark.sent_s
            quickest = self._quickest[peer] = min(delay, self._quickest.get(peer, delay))
            self._opened[peer] = now, delay - quickest
        elif peer in self._opened:
            begin, late = self._opened.pop(peer)
            await self._node.send(peer, LinkReport(mark.after, now - begin, late))

    def _learn(self, peer: str, report: LinkReport) -> None:
        left_s, _ = self._under_way[peer].popleft()
        delay = self._node.now - left_s - report.late_s
        usual = self._usual.get(peer, delay)
        self._usual[peer] = _KEEP * usual + (1.0 - _KEEP) * delay
        if report.seconds <= 0.0:
            return  # too quick to be seen
        planned = self._planned.get(peer, math.inf)
        first = (planned * report.seconds, report.seconds) if math.isfinite(planned) else (0.0, 0.0)
        carried, seconds = self._sums.get(peer, first)
        self._sums[peer] = (_KEEP * carried + report.carried, _KEEP * seconds + report.seconds)
