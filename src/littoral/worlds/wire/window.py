"""How many bytes to have under way to one peer, and in how large pieces: enough to fill the link, and little more.

    window = delivery rate x (shortest round trip + 20 ms)          chunk = delivery rate x 5 ms

What is under way beyond rate x round trip stands in queues, where nothing can overtake it; 20 ms of it keep the link
busy while an acknowledgement is late (a peer with a CPU quota may answer only every 20 ms). The rate is measured from
acknowledgements while the window is what limits us, the round trip from chunks that met no queue of ours: every ten
seconds the pipe runs empty once so that there is such a chunk. Cardwell et al., "BBR", ACM Queue 14 (2016).

A sender that is short of processor time wakes late, to send and to hear. That must not make the link look slow: a
smaller rate makes a smaller window and a slower pace, which make a smaller rate, until a push takes minutes. So it is
told how late its clock rang: the window has that much more slack, and what should have left meanwhile leaves at once.
"""

from __future__ import annotations

from littoral.worlds.wire.delivery import Delivery

START_BYTES = 128 * 1024
LEAST_BYTES, MOST_BYTES = 8 * 1024, 16 * 1024**2
LEAST_CHUNK, MOST_CHUNK = 4 * 1024, 8 * 1024**2
SLACK_S = 0.020
CHUNK_S = 0.005
_FAST = 400e6  # bytes per second, from which a vector in one frame is worth more: its receiver need not copy it
_PACE = 1.2  # faster than the rate we know, or we would never learn of a better one
_MOST_LATE_S = 0.5
_LOOK_EVERY_S, _PROBE_EVERY_S = 1.0, 10.0


class Window:
    """Fed with acknowledgements, says how much may be under way. Knows no socket and no clock."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new connection: what was known about the path may no longer hold."""
        self.round_trip: float | None = None  # seconds, the shortest since the last probe
        self.in_flight = 0
        self._delivery = Delivery()
        self._growing, self._grown, self._stalls = True, START_BYTES, 0
        self._round = (0.0, 0, 0)  # when it began, bytes delivered then, and bytes delivered at which it ends
        self._last_trip, self._least_trip = 0.0, float("inf")  # the latest, and the shortest since we last looked
        self._looked = self._probed = 0.0
        self._probing = False
        self._paced_until = 0.0  # when what was sent would have left, a little faster than the link
        self._late = self._late_before = 0.0  # the latest that our clock rang since we last looked, and before that

    def forget_in_flight(self) -> None:
        """Nothing is under way after all; the path is the same."""
        self.in_flight, self._probing = 0, False
        self._delivery.pause()

    @property
    def rate(self) -> float | None:
        """Bytes per second that the path delivers, once that was measured."""
        return self._delivery.rate

    @property
    def limit(self) -> int:
        """Bytes that may be under way before the next chunk is cut."""
        return 0 if self._probing else self._target

    @property
    def _target(self) -> int:
        if self._growing or self.rate is None or not self._delivery.steady:
            return self._grown  # short bursts: what they showed of the rate is too little
        return self._enough

    @property
    def _enough(self) -> int:
        """Bytes that keep the path busy at the rate we know."""
        trip = self.round_trip or 0.0
        return _between(LEAST_BYTES, (self.rate or 0.0) * (trip + SLACK_S + self._late_s) + LEAST_CHUNK, MOST_BYTES)

    @property
    def chunk(self) -> int:
        """Bytes of the next chunk."""
        if self.round_trip is None:
            return LEAST_CHUNK  # the first after a probe measures the path and not itself
        if self.rate is None or not self._delivery.steady:
            return _between(LEAST_CHUNK, self._grown / 2, MOST_CHUNK)  # what fits the window cannot be overtaken anyway
        return MOST_CHUNK if self.rate > _FAST else _between(LEAST_CHUNK, self.rate * CHUNK_S, MOST_CHUNK)

    @property
    def wants_news(self) -> bool:
        """Whether we would soon have to wait for an acknowledgement, or know too little of the path."""
        return self.round_trip is None or 2 * self.in_flight >= self.limit

    def pace(self, now: float) -> float:
        """Seconds to wait before the next chunk: a whole window at once would stand in a queue on its way."""
        if self._growing or not self._delivery.steady:
            return 0.0
        return max(0.0, self._paced_until - SLACK_S / 2 - now)

    def rang(self, late_s: float) -> None:
        """The clock that was set for the next chunk rang this late."""
        self._late = max(self._late, min(late_s, _MOST_LATE_S))

    @property
    def _late_s(self) -> float:
        return max(self._late, self._late_before)

    def sent(self, size: int, now: float) -> None:
        """A chunk left."""
        if self.in_flight == 0:
            self._begin_round(now)
            if not self._delivery.steady:  # a new burst may show what the last one could not: TCP began slowly, say
                self._growing, self._stalls = True, 0
        self.in_flight += size
        if self.rate is not None:
            self._paced_until = max(now - self._late_s, self._paced_until) + size / (self.rate * _PACE)

    def pause(self) -> None:
        """We have nothing to send, or may not: deliveries from here on say nothing about the link."""
        self._delivery.pause()
        self._stalls = 0

    def heard(self, round_trip: float, now: float) -> None:
        """A round trip was measured."""
        if self.round_trip is None:
            self._probed, self.round_trip = now, round_trip
        self.round_trip = min(self.round_trip, round_trip)
        self._last_trip, self._least_trip = round_trip, min(self._least_trip, round_trip)

    def acknowledged(self, size: int, sent_at: float, now: float) -> None:
        """``size`` more bytes arrived; the last of them left at ``sent_at``."""
        self.in_flight -= size
        self.heard(now - sent_at, now)
        self._delivery.update(size, now, self._target, self._full_trip_s)
        if self._delivery.total >= self._round[2]:
            self._end_round(now)
        if now - self._looked > _LOOK_EVERY_S:
            self._look(now)
        if self._probing:
            self._end_probe(now)

    @property
    def _full_trip_s(self) -> float:
        """How long a round trip takes when our own window is all that queues."""
        return (self._target + self.chunk) / self.rate if self.rate else SLACK_S

    def _begin_round(self, now: float) -> None:
        self._round = (now, self._delivery.total, self._delivery.total + self.in_flight)

    def _end_round(self, now: float) -> None:
        began, delivered, _ = self._round
        size = self._delivery.total - delivered
        if self._growing and now > began and size >= self._grown // 2:
            self._grow(size, now - began, now)
        self._begin_round(now)

    def _grow(self, size: int, took: float, now: float) -> None:
        """A window's worth went there and back: while that still gets faster and too little queues up, double it."""
        trip = self.round_trip or 0.0
        queued_s = self._last_trip - trip
        # Once it queues, the link was busy for all but the first byte's trip. To count that trip as transfer would
        # make the rate of a far link too small, and then the window, and so on.
        queues = queued_s > SLACK_S / 2 and took > 1.5 * trip
        rate = size / (took - trip) if queues else size / took
        self._stalls = 0 if self.rate is None or rate > 1.25 * self.rate else self._stalls + 1
        if self.rate is None or rate > self.rate:
            self._delivery.learn(rate, now)
        # The right window, sent at once, takes a trip and the slack to get through.
        self._growing = queued_s < trip + SLACK_S and self._stalls < 2 and self._grown < MOST_BYTES
        if self._growing:
            self._grown = min(2 * self._grown, MOST_BYTES)
        if queues:
            self._grown = min(self._grown, max(START_BYTES, self._enough))

    def _look(self, now: float) -> None:
        """Ask for a bare round trip now and then, and soon when even the shortest is too long to be our own queue."""
        too_long = self._least_trip > self._full_trip_s + SLACK_S
        if not self._growing and now - self._probed > (_LOOK_EVERY_S if too_long else _PROBE_EVERY_S):
            self._probing, self._probed = True, now
        self._looked, self._least_trip = now, float("inf")
        self._late, self._late_before = 0.0, self._late

    def _end_probe(self, now: float) -> None:
        """The pipe is empty; or control messages, which go out all the same, keep it from ever being so."""
        empty = self.in_flight < LEAST_CHUNK
        if empty or now - self._probed > 2 * self._full_trip_s:
            self._probing = False
            self.round_trip = None if empty else self.round_trip


def _between(least: int, value: float, most: int) -> int:
    return max(least, min(most, int(value)))
