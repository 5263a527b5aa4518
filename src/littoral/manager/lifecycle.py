"""The life cycle of models: samples arrive, triggers fire, updates run, versions are judged, promoted and served.

``step`` does whatever is due; one thread calls it again and again. All it knows is in the database, so that after a
kill at any moment the next ``step`` goes on.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from littoral.errors import LittoralError
from littoral.manager.database import Database
from littoral.manager.freezing import job_for
from littoral.manager.gate import Score, Verdict
from littoral.manager.judging import Judge
from littoral.manager.model_records import Model, Version
from littoral.manager.registry import Registry
from littoral.manager.samples import Samples
from littoral.manager.serving import Serving
from littoral.manager.trainer import Trainer
from littoral.manager.triggers import Cost
from littoral.manager.updates import ENDED, Tell, Update, Updates
from littoral.manager.watches import Watches
from littoral.manager.weights import load_model

_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class LifeCycle:
    """The parts of the life cycle over one database; ``folder`` holds weights and frozen training sets."""

    def __init__(
        self, database: Database, folder: Path, trainer: Trainer, *, now: Callable[[], float], tell: Tell
    ) -> None:
        self._trainer, self._now, self._say = trainer, now, tell
        self.samples = Samples(database, now)
        self.stores = self.samples.stores
        self.registry = Registry(database, folder / "weights")
        self.serving = Serving(self.registry, self.stores)
        self.updates = Updates(database, self.samples, self.registry, trainer, folder / "updates", tell)
        self.watches = Watches(database, self.samples, self.updates, self.cost)
        self._costs: dict[str, Cost | None] = {}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Have a thread do what is due."""
        self.tidy()
        self._thread = threading.Thread(target=self._run, name="life-cycle", daemon=True)
        self._thread.start()

    def tidy(self) -> None:
        """Remove what a kill left behind; while nobody else works here."""
        self.registry.sweep()
        self.updates.tidy()

    def stop(self) -> None:
        """After the step under way; what was submitted is on the disk then."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self.samples.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            self.step(self._now())
            self._ending.wait(_EVERY_S)

    def step(self, now: float) -> None:
        """Advance every update and ask every trigger. What fails for one model does not hold up the others."""
        for update in self.updates.unfinished():
            self._guarded(update.model, partial(self._advance, update, now))
        for model in self.registry.all():
            self._guarded(model.name, partial(self._watch, model, now))

    def _guarded(self, model: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (LittoralError, OSError, sqlite3.Error):  # a full disk, say: the next step tries again
            _log.exception("model %s", model)

    def _watch(self, model: Model, now: float) -> None:
        self.serving.follow(model)
        self.watches.step(model, now)

    def _advance(self, update: Update, now: float) -> None:
        after = self.updates.advance(update.number, now)
        if after.state in ENDED:
            self.updates.tidy()

    # -- what operators ask for ---------------------------------------------------------------------------------

    def keep_weights(self, name: str, content: bytes) -> str:
        """Weights from elsewhere, checked against the model and kept: their file, for ``registry.add``."""
        load_model(self.registry.get(name).make_task(), content, "weights")
        return self.registry.weights.keep(name, content)

    def judge(self, name: str, number: int) -> tuple[Score, Verdict]:
        """What the gate says of a version now."""
        model, version = self.registry.get(name), self.registry.version(name, number)
        judge = Judge(model, self.samples, self.registry)
        score = judge.score(version.file)
        return score, model.gate.judge(score, judge.current())

    def promote(self, connection: Connection, name: str, number: int, judged: tuple[Score, Verdict] | None) -> Version:
        """Serve a version if it passed (see ``judge``), or whatever it was judged if ``judged`` is None.

        Call ``serving.refresh`` once the transaction has ended.
        """
        now = self._now()
        if judged is not None and not judged[1].passed:
            self._say(connection, "model.refused", f"models/{name}", {"version": number, "reason": judged[1].reason})
            return self.registry.refuse(connection, name, number, judged[1].reason, judged[0])
        reason = judged[1].reason if judged else "promoted by an operator, without the gate"
        score = judged[0] if judged else None
        version = self.registry.promote(connection, name, number, reason=reason, now=now, score=score)
        self._say(connection, "model.promoted", f"models/{name}", {"version": number, "reason": reason})
        return version

    def rollback(self, connection: Connection, name: str) -> Version:
        """Serve the version before; call ``serving.refresh`` once the transaction has ended."""
        version = self.registry.rollback(connection, name, now=self._now())
        self._say(connection, "model.rolled-back", f"models/{name}", {"version": version.number})
        return version

    def stop_run(self, update: Update) -> None:
        """Of an update that was given up."""
        if update.run is not None:
            self._trainer.stop(update.run)

    # -- what an update costs -----------------------------------------------------------------------------------

    def cost(self, model: Model) -> Cost | None:
        """What the last one took, or what a plan predicts; None while none is made."""
        for update in self.updates.of_model(model.name, 0, 10):
            if update.time_s is not None and update.cost_usd is not None:
                return Cost(time_s=update.time_s, usd=update.cost_usd)
        if model.name not in self._costs:
            self._costs[model.name] = None
            threading.Thread(target=self._predict, args=(model,), name="cost", daemon=True).start()
        return self._costs[model.name]

    def _predict(self, model: Model) -> None:
        """Beside the steps, since planning may take a while."""
        sizes = (model.training.window, model.gate.window)
        job = job_for(model, f"{model.name}-estimate", Path("nowhere"), sizes)
        try:
            self._costs[model.name] = self._trainer.predict(job, model.training.options)
        except (LittoralError, OSError) as error:
            _log.warning("model %s: no plan to tell the cost of an update: %s", model.name, error)
