"""Who should be in a run and who is: one seat per process."""

from __future__ import annotations

from dataclasses import dataclass, field

from littoral.continuum.app import App
from littoral.job import Job
from littoral.planning.plan import Plan
from littoral.worlds.processes.detector import Detector
from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.keys import KeyPair, new_keys


@dataclass
class Seat:
    """``kind`` is worker, server, store or app."""

    name: str
    kind: str
    device: str
    app: App | None = None
    keys: KeyPair = field(default_factory=new_keys)  # of the present process
    address: str = ""  # where it listens, once it has said hello
    detector: Detector | None = None
    present: bool = False  # it said hello and was not lost since
    lost: bool = False  # it was there before and its loss is known
    admitted: bool = False  # what it holds counts: a process that has just come back holds nothing yet
    running: bool = False  # its program has not ended
    series: int = 0
    batch: int = 0
    failures: int = 0  # lives in a row that ended before they began

    @property
    def peer(self) -> Peer:
        """How others know its present process."""
        return Peer(self.name, self.address, self.keys.public)

    @property
    def trains(self) -> bool:
        """Whether it runs one of the strategy's programs."""
        return self.kind in ("worker", "server")


def seats_of(job: Job, plan: Plan) -> dict[str, Seat]:
    """Every process that a plan needs: servers, stores, workers, and the apps beside them."""
    seats = [Seat(server.name, "server", server.device) for server in plan.servers]
    stores = {store.name: store for store in job.continuum.stores}
    for name in dict.fromkeys(worker.store for worker in plan.workers if worker.store):
        store = stores.get(name)
        seats.append(Seat(name, "store", (store.device or name) if store else name))
    seats += [Seat(worker.name, "worker", worker.device, batch=worker.batch) for worker in plan.workers]
    for app in job.continuum.apps:
        seats += [Seat(f"{app.name}@{device}", "app", device, app=app) for device in app.on]
    return {seat.name: seat for seat in seats}
