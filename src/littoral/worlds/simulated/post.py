"""Messages in virtual time: queued per pair of nodes, carried by the fluid network, delivered after the latency."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from littoral.continuum.routes import Route, Routes
from littoral.worlds.node import Message
from littoral.worlds.simulated.kernel import Kernel
from littoral.worlds.simulated.network import Flow, FluidNetwork


class Parcel:
    """A message on its way."""

    __slots__ = ("channel", "message", "size", "start")

    def __init__(self, channel: Channel, message: Message, start: float) -> None:
        self.channel, self.message, self.size, self.start = channel, message, message.size, start


class Channel:
    """One direction between two nodes, as a TCP connection is: in order, one message at a time."""

    __slots__ = ("flow", "queue", "route", "source", "target")

    def __init__(self, source: str, target: str, route: Route) -> None:
        self.source, self.target, self.route = source, target, route
        self.queue: deque[Parcel] = deque()
        self.flow: Flow | None = None


class Post:
    """Carries messages between nodes; ``deliver(parcel)`` is called when one has arrived."""

    def __init__(
        self,
        kernel: Kernel,
        routes: Routes,
        device_of: Callable[[str], str],
        deliver: Callable[[Parcel], Any],
    ) -> None:
        self.network = FluidNetwork(kernel)
        self._kernel, self._routes, self._device_of, self._deliver = kernel, routes, device_of, deliver
        self._channels: dict[tuple[str, str], Channel] = {}

    def route(self, source: str, target: str) -> Route:
        """The way between two nodes."""
        return self._channel(source, target).route

    def send(self, source: str, target: str, message: Message) -> None:
        """Queue a message behind what the sender already has for this target."""
        channel = self._channel(source, target)
        parcel = Parcel(channel, message, self._kernel.now)
        if channel.flow is not None:
            channel.queue.append(parcel)
        else:
            self._start(channel, parcel)

    def drop(self, node: str) -> None:
        """Whatever this node was sending or being sent is lost."""
        for (source, target), channel in list(self._channels.items()):
            if node in (source, target):
                if channel.flow is not None:
                    self.network.stop(channel.flow)
                # What is already behind the last pipe finds its channel gone when it arrives.
                del self._channels[source, target]

    def is_open(self, channel: Channel) -> bool:
        """Whether messages of this channel still count."""
        return self._channels.get((channel.source, channel.target)) is channel

    def _channel(self, source: str, target: str) -> Channel:
        key = (source, target)
        channel = self._channels.get(key)
        if channel is None:
            route = self._routes.between(self._device_of(source), self._device_of(target))
            channel = self._channels[key] = Channel(source, target, route)
        return channel

    def _start(self, channel: Channel, parcel: Parcel) -> None:
        def sent() -> None:
            self._kernel.call_at(self._kernel.now + channel.route.latency_s, self._arrive, parcel)
            channel.flow = None
            if channel.queue:
                self._start(channel, channel.queue.popleft())

        if channel.route.pipes:
            channel.flow = self.network.start(channel.route, parcel.size, sent)
        else:
            sent()

    def _arrive(self, parcel: Parcel) -> Any:
        return self._deliver(parcel) if self.is_open(parcel.channel) else None
