"""Background apps in virtual time: released every period, slowed by training as they slow it, late or in time.

With a profile, what a period takes is drawn from what was measured. It loads its device as described all the same:
that is what slows training.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from littoral.apps.tally import Tally
from littoral.continuum.app import App
from littoral.events import AppChecked, DeadlineMissed
from littoral.worlds.simulated.kernel import sleep
from littoral.worlds.simulated.latencies import Latencies

if TYPE_CHECKING:
    from littoral.worlds.simulated.machine import Machine
    from littoral.worlds.simulated.session import Session


@dataclass
class _Record:
    app: App
    device: str
    tally: Tally
    busy: bool = False
    loads: bool = False  # its device, while the latency is a profile's


class AppRunner:
    """Runs every app of the continuum on every device it is on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        continuum = session.job.continuum
        self._records = [_Record(app, device, Tally(app.deadline_s)) for app in continuum.apps for device in app.on]
        self._latencies = Latencies(session) if session.job.profile is not None and self._records else None

    def start(self) -> None:
        """Release the first periods, spread a little so that devices do not tick together."""
        for record in self._records:
            offset = self._session.random(f"app/{record.app.name}/{record.device}").random()
            self._session.kernel.spawn(self._periods(record, offset * record.app.period_s))

    async def _periods(self, record: _Record, offset: float) -> None:
        kernel, app = self._session.kernel, record.app
        machine = self._session.machines[record.device]
        first, number = kernel.now + offset, 0
        while True:
            await sleep(max(0.0, first + number * app.period_s - kernel.now))
            number += 1
            if record.busy:  # the frame before is still being worked on: this one is dropped
                self._book(record, None)
            else:
                record.busy = True
                kernel.spawn(self._described(record, machine) if self._latencies is None else
                             self._measured(record, machine, self._latencies))  # fmt: skip

    async def _described(self, record: _Record, machine: Machine) -> None:
        start = self._session.kernel.now
        await machine.work(record.app.work_s, record.app.demand)
        record.busy = False
        self._book(record, self._session.kernel.now - start)

    async def _measured(self, record: _Record, machine: Machine, latencies: Latencies) -> None:
        latency = latencies.draw(record.app.name, record.device)
        if latency is not None:
            self._session.kernel.spawn(self._load(record, machine))
            await sleep(latency)
        record.busy = False
        self._book(record, latency)

    async def _load(self, record: _Record, machine: Machine) -> None:
        """Take of the device what is described; where that takes longer than measured, it never piles up."""
        if not record.loads:
            record.loads = True
            await machine.work(record.app.work_s, record.app.demand)
            record.loads = False

    def _book(self, record: _Record, latency: float | None) -> None:
        if not record.tally.add(latency):
            now = self._session.kernel.now
            self._session.emit(DeadlineMissed(now, record.app.name, record.device, latency))

    def state(self) -> list[dict[str, Any]]:
        """The accounts so far, for a checkpoint."""
        return [asdict(record.tally) for record in self._records]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Go on with the accounts of a checkpoint."""
        for record, account in zip(self._records, state, strict=True):
            record.tally = Tally(**account)

    def finish(self) -> None:
        """Report how each app did."""
        now = self._session.kernel.now
        for app, device, tally in ((record.app, record.device, record.tally) for record in self._records):
            account = tally.checked, tally.violated, tally.mean_s, tally.worst_s
            self._session.emit(AppChecked(now, app.name, device, *account))
