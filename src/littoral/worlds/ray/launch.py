"""Starts the processes of a run as Ray actors on their devices' machines, and learns from Ray how they end.

Ray only places and starts them, and ends them when it loses the coordinator. Whether they are alive, and whether they
come back, our own heartbeats and the coordinator decide; so Ray must not restart them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from littoral.worlds.processes.boot import Boot, encode
from littoral.worlds.processes.launch import OnExit
from littoral.worlds.ray.cluster import Cluster, ray_module
from littoral.worlds.ray.host import Host, poke

FAREWELL_S = 1.0  # for processes to end by themselves once the run is over
BURIAL_S = 5.0  # for Ray to say that a killed one is gone; one out of its reach it ends when it reaches it again


@dataclass(eq=False)
class Life:
    """One process of a node, from its start to its end."""

    node: str
    device: str
    name: str
    actor: Any = None
    where: Any = None  # a promise of its Whereabouts
    poked: Any = None  # a promise that the last signal was sent


class RayLauncher:
    """A ``Launcher`` on a Ray cluster. May serve several runs, one after another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespace = f"littoral-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        self._present: dict[str, Life] = {}
        self._running: set[Life] = set()  # also those that were killed and have not ended yet
        self._emptied = asyncio.Event()
        self._on_exit: OnExit = _nobody
        self._logs: Path | None = None
        self._clerk: ThreadPoolExecutor | None = None

    def attach(self, on_exit: OnExit, logs: Path | None) -> None:
        self._on_exit, self._logs = on_exit, logs
        self._loop = asyncio.get_running_loop()
        self._emptied = asyncio.Event()
        # Calls to Ray may wait for its head node, and the loop must not. A single thread keeps them in order.
        self._clerk = ThreadPoolExecutor(1, thread_name_prefix="ray-clerk")

    def start(self, node: str, device: str, boot: Boot) -> None:
        self.signal(node, signal.SIGKILL)
        life = Life(node, device, f"{node}/{next(self._numbers)}")
        self._present[node] = life
        self._running.add(life)
        self._emptied.clear()
        self._have(life, self._begin, encode(_for_travel(boot, self._cluster.home)))

    def signal(self, node: str, number: int) -> None:
        life = self._present.get(node)
        if life is None:
            return
        if number == signal.SIGKILL:
            self._have(life, self._kill)
        else:
            self._have(life, self._poke, number)

    async def detach(self) -> None:
        if self._clerk is None:
            return
        self._on_exit = _nobody
        await self._wait_until_empty(FAREWELL_S)
        for life in self._running:
            self._have(life, self._kill)
        await self._wait_until_empty(BURIAL_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(self._clerk.submit(int)), BURIAL_S)  # its last duties are done
        self._clerk.shutdown(wait=False)
        self._clerk, self._present, self._running = None, {}, set()

    async def _wait_until_empty(self, seconds: float) -> None:
        if self._running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), seconds)

    # -- in the clerk's thread ------------------------------------------------------------------------------------

    def _have(self, life: Life, act: Callable[..., None], *arguments: Any) -> None:
        """Let the clerk do something; where that fails, the process counts as ended."""

        def done(future: Future[None]) -> None:
            if future.exception() is not None:
                self._tell(life, future)

        assert self._clerk is not None, "attach first"
        self._clerk.submit(act, life, *arguments).add_done_callback(done)

    def _begin(self, life: Life, raw: bytes) -> None:
        ray, pinned = ray_module(), self._cluster.pin(life.device)
        named = {"name": life.name, "namespace": self._namespace}
        life.actor = (
            ray.remote(Host).options(num_cpus=0, max_restarts=0, max_task_retries=0, **named, **pinned).remote()
        )
        life.where = life.actor.where.remote()
        life.where.future().add_done_callback(partial(self._tell_where, life))
        life.actor.run.remote(raw).future().add_done_callback(partial(self._tell, life))

    def _kill(self, life: Life) -> None:
        if life.actor is not None:
            ray_module().kill(life.actor, no_restart=True)

    def _poke(self, life: Life, number: int) -> None:
        options = {"num_cpus": 0, "max_retries": 0, **self._cluster.pin(life.device)}
        life.poked = ray_module().remote(poke).options(**options).remote(life.where, number, life.poked)

    # -- what Ray says, in threads of its own ---------------------------------------------------------------------

    def _tell_where(self, life: Life, future: Future[Any]) -> None:
        if future.exception() is None:
            pid, address, machine = future.result()
            self._post(self._note, life, f"process {pid} at {address}, Ray node {machine}")

    def _tell(self, life: Life, future: Future[Any]) -> None:
        self._post(self._ended, life, future.exception())

    def _post(self, act: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the run is over, nobody wants to know
            self._loop.call_soon_threadsafe(act, *arguments)

    # -- on the loop ----------------------------------------------------------------------------------------------

    def _ended(self, life: Life, error: BaseException | None) -> None:
        if life not in self._running:
            return
        self._running.discard(life)
        if not self._running:
            self._emptied.set()
        if error is None:
            self._have(life, self._kill)  # its program has ended, the process would wait for another
        self._note(life, str(error) if error else "ended")
        if self._present.get(life.node) is life:
            del self._present[life.node]
            self._on_exit(life.node, _how(error))

    def _note(self, life: Life, text: str) -> None:
        """What processes print stays on their machines, in Ray's logs; how they end is kept with the run."""
        if self._logs is not None:
            with (self._logs / f"{life.node}.log").open("a") as log:
                log.write(f"{life.name}: {text}\n")


def _nobody(node: str, how: str) -> None:
    """Nobody wants to know."""


def _for_travel(boot: Boot, home: str) -> Boot:
    """A boot record that means the same elsewhere: whole paths, and a pantry's name that says whose it is."""
    paths = tuple(os.path.abspath(path) for path in boot.paths)  # an empty one is the folder that we were started in
    pantry = f"{home}:{os.path.abspath(boot.pantry)}"
    return msgspec.structs.replace(boot, paths=paths, pantry=pantry)


def _how(error: BaseException | None) -> str:
    """How a process ended, for a sentence that begins with its name."""
    if error is None:
        return "ended"
    cause = getattr(error, "cause", None)  # what its program raised
    if cause is not None:
        return f"failed with {type(cause).__name__}: {cause}"
    because = re.search(r"because (.+?)(?:\.\s|\.?$)", str(error), re.MULTILINE)
    return f"died ({because[1] if because else type(error).__name__})"
