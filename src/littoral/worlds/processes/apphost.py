"""A background app's process: it works in periods beside the training."""

from __future__ import annotations

import asyncio

from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.control import StartProgram
from littoral.worlds.processes.line import Line
from littoral.worlds.wire.endpoint import Arrival


class AppHost:
    """A background app's process."""

    def __init__(self, boot: Boot) -> None:
        self._boot, self._line = boot, Line(boot)

    async def run(self) -> None:
        """From the run's beginning until it is over."""
        from littoral.apps.pacing import run_app

        boot, line, working = self._boot, self._line, list[asyncio.Task[None]]()

        async def take(arrival: Arrival) -> None:
            arrival.release()
            if isinstance(arrival.message, StartProgram) and not working:
                assert boot.app is not None
                device = boot.node.partition("@")[2]
                app = run_app(boot.app, device, line.report, line.clock, seed=boot.seed, cores=boot.cores)
                working.append(asyncio.ensure_future(app))

        async def account() -> None:
            for task in working:
                task.cancel()
            for outcome in await asyncio.gather(*working, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome

        await line.run(take, before_the_end=account)
