"""A process's line to its run: it says hello, beats, keeps the run's clock and hears when all is over."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from littoral.events import Event, Refused
from littoral.worlds.node import Message
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.clock import RunClock
from littoral.worlds.processes.control import (
    COORDINATOR,
    Beat,
    ClockZero,
    Echo,
    EndRun,
    Hello,
    ReportEvents,
    Roster,
)
from littoral.worlds.processes.vocabulary import codec_for
from littoral.worlds.wire.endpoint import Arrival, Endpoint, Limits, Peer, Refusal

Take = Callable[[Arrival], Awaitable[None]]
BEAT_S = 0.2
REPORT_S = 0.1  # events travel in bundles


class Line:
    """A process's connection to the run: its endpoint, the run's clock, and words to the coordinator in order."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot
        self.clock = RunClock(boot.clock_zero)
        limits = Limits(largest_message=boot.largest_message)
        self.endpoint = Endpoint(
            boot.node,
            boot.keys,
            codec_for(boot.plan.strategy),
            limits=limits,
            on_refusal=self._refused,
            clock=self.clock,
        )
        self._events: list[Event] = []
        self.on_roster: Callable[[tuple[Peer, ...]], None] = lambda peers: None
        self.over = asyncio.Event()

    def post(self, message: Message) -> None:
        """Tell the coordinator, in order."""
        self.endpoint.post(COORDINATOR, message)

    def report(self, event: Event) -> None:
        """Tell the coordinator some time soon what happened."""
        self._events.append(event)

    def _refused(self, refusal: Refusal) -> None:
        self.report(Refused(self.clock(), self.boot.node, refusal.peer, refusal.reason, refusal.count))

    async def run(self, take: Take, before_the_end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Be part of the run until it is over; ``take`` gets what is not handled here."""
        address = await self.endpoint.open(self.boot.place.address)
        for peer in (self.boot.coordinator, *self.boot.peers):
            self.endpoint.meet(peer)
        self.post(Hello(address, os.getpid()))
        tasks = [asyncio.ensure_future(each) for each in (self._beat(), self._bundle(), self._read(take))]
        over = asyncio.ensure_future(self.over.wait())
        try:
            done, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {over}:
                task.result()
            if before_the_end is not None:
                await before_the_end()
            self._flush_events()
            await self.endpoint.flush(1.0)
        finally:
            for task in (over, *tasks):
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            await self.endpoint.close()

    async def _beat(self) -> None:
        while True:
            self.post(Beat(time.monotonic()))
            await asyncio.sleep(BEAT_S)

    async def _bundle(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._flush_events()

    def _flush_events(self) -> None:
        if self._events:
            events, self._events = tuple(self._events), []
            self.post(ReportEvents(events))  # type: ignore[arg-type]

    async def _read(self, take: Take) -> None:
        while True:
            arrival = await self.endpoint.receive()
            match arrival.message:
                case Echo(sent=sent, now=now):
                    self.clock.learn(sent, now)
                case ClockZero(shift=shift):
                    self.clock.shift(shift)
                case Roster(peers=peers):
                    for peer in peers:
                        if peer.name != self.boot.node:
                            self.endpoint.meet(peer)
                    self.on_roster(peers)
                case EndRun():
                    self.over.set()
                case _:
                    await take(arrival)
                    continue
            arrival.release()
