"""All that a new process is told: who it is, whom to trust, what to train. It comes through a pipe, never by argv.

The secret key in it is the process's own, made for this one life; a process started again gets another, so that its
predecessor is locked out the moment the others meet the successor.
"""

from __future__ import annotations

from typing import Any

import msgspec

from littoral.continuum.app import App
from littoral.planning.plan import Plan
from littoral.worlds.lab.places import Place
from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.keys import KeyPair


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is worker, server, store or app."""

    run: str
    node: str
    kind: str
    place: Place
    keys: KeyPair
    coordinator: Peer
    peers: tuple[Peer, ...]  # whom to let in; where they listen may not be known yet
    clock_zero: float  # the machine's monotonic clock at the run's second 0, where both share a machine
    seed: int
    plan: Plan
    task: str
    task_options: dict[str, Any]
    recipe: dict[str, Any]
    paths: tuple[str, ...]  # where the task's module may be found
    pantry: str  # folder for data fetched from a store
    largest_message: int
    app: App | None = None
    cores: float = 1.0  # of this machine that the device has
    threads: int = 1  # to compute with
    card: int | None = None  # to compute on
    environment: dict[str, str] = {}


def encode(boot: Boot) -> bytes:
    """For the pipe."""
    return msgspec.msgpack.encode(boot)


def decode(raw: bytes) -> Boot:
    """From the pipe."""
    return msgspec.msgpack.decode(raw, type=Boot)
