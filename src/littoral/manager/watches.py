"""Triggers at work: each is told its model's outcomes and asked; what fires becomes an update.

Nothing that a trigger remembers is stored: after a restart it is told again what happened since the served version was
promoted, the newest ``REPLAY`` outcomes at most. Firing writes the update's row and the signal in one transaction, and
a model has one unfinished update at a time; so no firing is lost, and none counts twice. What a follow-up depends on,
when the alarm was and which updates began since, is in the rows of updates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from sqlite3 import Connection

from littoral.manager.database import Database
from littoral.manager.gate import Score
from littoral.manager.model_records import Model, find_version
from littoral.manager.refusals import Conflict
from littoral.manager.samples import Samples
from littoral.manager.stores import Store, find_store
from littoral.manager.trigger_kinds import check_settings
from littoral.manager.trigger_rows import TriggerRow, TriggerRows
from littoral.manager.triggers import Alarm, Cost, Debounce, Decision, Facts, Fire, Trigger, debounced, followed_up
from littoral.manager.updates import Asker, Update, Updates

REPLAY = 20_000
_RECENT_UPDATES = 10
_SIGNAL_EVERY_S = 60.0  # while nothing arrives


@dataclass
class _Watch:
    key: str  # what it was made from: other settings or another promotion make another one
    trigger: Trigger
    debounce: Debounce
    again_after: float
    seen: int  # the last label it was told of
    recorded: float = float("-inf")


class Watches:
    """The triggers that watch; for one thread."""

    def __init__(
        self, database: Database, samples: Samples, updates: Updates, cost: Callable[[Model], Cost | None]
    ) -> None:
        self.rows = TriggerRows(database)
        self._database, self._samples, self._updates, self._cost = database, samples, updates, cost
        self._watches: dict[int, _Watch] = {}

    def step(self, model: Model, now: float) -> Update | None:
        """Tell the model's triggers what is new and ask them; the update, if one fired."""
        for row in self.rows.all(model.name):
            fired = self._ask(row, model, now) if row.enabled else None
            if fired is not None:
                return fired
        return None

    def _ask(self, row: TriggerRow, model: Model, now: float) -> Update | None:
        with self._database.read() as connection:
            store = find_store(connection, model.store)
            labelled = store.labelled
            facts, promotion = known_facts(connection, model, row, store)
        watch = self._watch(row, promotion)
        news = self._tell(watch, model, labelled)
        if row.kind == "expected-gain":
            facts = replace(facts, cost=self._cost(model))
        wish = followed_up(watch.trigger.decide(now, facts), watch.again_after, facts.alarm)
        decision = debounced(wish, watch.debounce.hold(now, facts))
        if not (news or isinstance(decision, Fire) or now - watch.recorded >= _SIGNAL_EVERY_S):
            return None
        watch.recorded = now
        return self._record(row, decision, labelled, now)

    def _watch(self, row: TriggerRow, promotion: tuple[int, int]) -> _Watch:
        key = json.dumps([row.settings, promotion])
        known = self._watches.get(row.number)
        if known is None or known.key != key:
            settings = check_settings(row.kind, row.settings)
            known = _Watch(key, settings.make(), settings.debounce, settings.again_after, promotion[1])
            self._watches[row.number] = known
        return known

    def _tell(self, watch: _Watch, model: Model, labelled: int) -> bool:
        """Whether there was anything to tell."""
        if labelled <= watch.seen:
            return False
        for outcome in self._samples.outcomes(model.store, watch.seen, REPLAY):
            if outcome.version in (None, model.current):
                watch.trigger.see(outcome.right)
            watch.seen = outcome.labelled
        watch.seen = max(watch.seen, labelled)
        return True

    def _record(self, row: TriggerRow, decision: Decision, labelled: int, now: float) -> Update | None:
        update = None
        with self._database.write() as connection:
            if isinstance(decision, Fire):
                try:
                    asker = _asker(row, decision, labelled)
                    update = self._updates.request(connection, row.model, decision.reason, now, asker)
                except Conflict:
                    return None  # somebody asked at the same moment
            self.rows.record(connection, row.number, decision, labelled, now)
        return update


def _asker(row: TriggerRow, fire: Fire, labelled: int) -> Asker:
    """Labels that came without a prediction may put the alarm a little too late."""
    alarm = None if fire.since is None else labelled - fire.since
    return Asker(trigger=row.number, alarm=alarm, follows=fire.follows)


def known_facts(
    connection: Connection, model: Model, trigger: TriggerRow, store: Store
) -> tuple[Facts, tuple[int, int]]:
    """What a trigger may know, and since which promotion (its number, and the store's clock then) it watches."""
    updates = connection.execute(
        "SELECT state, labelled, created, ended FROM updates WHERE model = ? ORDER BY number DESC LIMIT ?",
        (model.name, _RECENT_UPDATES),
    ).fetchall()
    promotion = connection.execute(
        "SELECT number, labelled FROM promotions WHERE model = ? AND NOT undone ORDER BY number DESC LIMIT 1",
        (model.name,),
    ).fetchone()
    last, ended = updates[0] if updates else None, [row for row in updates if row["ended"] is not None]
    facts = Facts(
        labelled=store.labelled - (last["labelled"] if last else 0),
        created=trigger.created,
        last_began=last["created"] if last else None,
        last_ended=last["ended"] if last else None,
        last_promoted=last["state"] == "promoted" if last else True,
        updating=last is not None and last["ended"] is None,
        promoted=_score(connection, model),
        updates=len(ended),
        promotions=sum(row["state"] == "promoted" for row in ended),
        alarm=_alarm(connection, model, trigger.number, store, last["labelled"]) if last else None,
    )
    return facts, (promotion["number"], promotion["labelled"]) if promotion else (0, 0)


def _alarm(connection: Connection, model: Model, trigger: int, store: Store, last: int) -> Alarm | None:
    """``last`` is the store's clock when the model's last update began."""
    row = connection.execute(
        "SELECT number, alarm, number IN (SELECT follows FROM updates WHERE follows IS NOT NULL) AS followed "
        "FROM updates WHERE model = ? AND trigger = ? AND alarm IS NOT NULL AND follows IS NULL "
        "ORDER BY number DESC LIMIT 1",
        (model.name, trigger),
    ).fetchone()
    if row is None or row["followed"]:
        return None
    window = math.ceil(model.training.window / (1 - store.retention.held_out))
    return Alarm(
        update=row["number"], since=store.labelled - row["alarm"], then=last - row["alarm"],
        window=min(window, store.retention.most_samples),
    )  # fmt: skip


def _score(connection: Connection, model: Model) -> Score | None:
    if model.current is None:
        return None
    version = find_version(connection, model.name, model.current)
    if version.accuracy is None or not version.judged_on:
        return None
    return Score(accuracy=version.accuracy, samples=version.judged_on)
