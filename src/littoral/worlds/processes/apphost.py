"""A background app's process: it works in periods beside the training."""

from __future__ import annotations

import asyncio
import traceback

from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.control import ProgramFailed, StartProgram
from littoral.worlds.processes.line import Line
from littoral.worlds.wire.endpoint import Arrival


class AppHost:
    """A background app's process. An app that raises ends the run at once: what it measures is part of the result."""

    def __init__(self, boot: Boot) -> None:
        self._boot, self._line = boot, Line(boot)
        self._working: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """From the run's beginning until it is over."""
        await self._line.run(self._take, before_the_end=self._account)

    async def _take(self, arrival: Arrival) -> None:
        arrival.release()
        if isinstance(arrival.message, StartProgram) and self._working is None:
            self._working = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        from littoral.apps.pacing import run_app

        boot, line = self._boot, self._line
        assert boot.app is not None
        device = boot.node.partition("@")[2]
        try:
            await run_app(boot.app, device, line.report, line.clock, seed=boot.seed, cores=boot.cores)
        except Exception:
            if line.over.is_set():
                traceback.print_exc()  # into the log: too late to matter, and the account must still get through
            else:
                line.post(ProgramFailed(traceback.format_exc(limit=-4)))

    async def _account(self) -> None:
        """Have the app's last word, which is its account."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
