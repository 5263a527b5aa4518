"""The life of one node's process, from the boot record it is given to the end of the run."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from littoral.worlds.processes.apphost import AppHost
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.storekeeper import StoreKeeper
from littoral.worlds.processes.trainee import Trainee


def main(boot: Boot) -> None:
    """Run one node in this process."""
    from littoral.worlds.lab.places import enter

    enter(boot.place)
    os.environ.update(boot.environment)
    for path in reversed(boot.paths):
        if path not in sys.path:
            sys.path.insert(0, path)

    async def live() -> None:
        hosts: dict[str, Any] = {"worker": Trainee, "server": Trainee, "store": StoreKeeper, "app": AppHost}
        await hosts[boot.kind](boot).run()

    asyncio.run(live())
