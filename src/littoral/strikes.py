"""Who failed how often, across runs: three strikes and a worker is out, for a while (Deep-Edge's rule).

The paper says that a worker interrupted three times is no longer eligible, and leaves open for how long. Here it sits
out ``PROBATION`` runs and then may try again with one strike less than it takes, so that a single further loss puts
it out at once; a run completed without a loss takes one strike away. Servers collect strikes too, but nobody
can do without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from littoral.errors import InputError

LIMIT = 3  # strikes that exclude
PROBATION = 3  # runs to sit out

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node's strikes, and the number of the run in which it was last lost."""

    strikes: Annotated[int, msgspec.Meta(ge=1)]
    lost_in_run: _Count


class Strikes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of everybody who has strikes. A value: each change gives a new one.

    >>> strikes = Strikes().begin_run().struck("nano-2").struck("nano-2")
    >>> strikes.excluded("nano-2"), strikes.struck("nano-2").excluded("nano-2")
    (False, True)
    """

    runs: _Count = 0  # begun so far
    nodes: dict[str, Record] = {}

    def count(self, node: str) -> int:
        """Strikes of a node at present."""
        return self.nodes[node].strikes if node in self.nodes else 0

    def excluded(self, node: str) -> bool:
        """Whether a worker must sit out."""
        return self.count(node) >= LIMIT

    def begin_run(self) -> Strikes:
        """One more run begins (one that is resumed does not): whoever sat out long enough may try again."""
        runs = self.runs + 1
        nodes = {
            name: Record(LIMIT - 1, record.lost_in_run)
            if record.strikes >= LIMIT and runs - record.lost_in_run > PROBATION
            else record
            for name, record in self.nodes.items()
        }
        return Strikes(runs, nodes)

    def struck(self, node: str) -> Strikes:
        """The node was lost in the present run."""
        return Strikes(self.runs, self.nodes | {node: Record(self.count(node) + 1, self.runs)})

    def finished_run(self, nodes: Iterable[str]) -> Strikes:
        """These nodes took part to a good end: each that was not lost in this run loses a strike."""
        kept = dict(self.nodes)
        for name in nodes:
            record = kept.get(name)
            if record is not None and record.lost_in_run != self.runs:
                kept[name] = msgspec.structs.replace(record, strikes=record.strikes - 1)
        return Strikes(self.runs, {name: record for name, record in kept.items() if record.strikes})

    def pardoned(self, node: str) -> Strikes:
        """All strikes of a node are forgiven."""
        return Strikes(self.runs, {name: record for name, record in self.nodes.items() if name != node})

    def rebased(self, before: Strikes, onto: Strikes) -> Strikes:
        """``onto`` with the losses and good ends between ``before`` and now; what other runs did meanwhile stays."""
        nodes = dict(onto.nodes)
        for name in sorted(before.nodes.keys() | self.nodes.keys()):
            change = self.count(name) - before.count(name)
            known = [record.lost_in_run for record in (self.nodes.get(name), onto.nodes.get(name)) if record]
            if change and onto.count(name) + change > 0:
                nodes[name] = Record(onto.count(name) + change, max(known))
            elif change:
                nodes.pop(name, None)
        return Strikes(max(self.runs, onto.runs), nodes)

    def to_json(self) -> str:
        """As the file keeps it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, file: str | Path) -> Strikes:
        """What :meth:`to_json` wrote; anything else is refused, in the name of ``file``."""
        try:
            strikes = msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise _damaged(str(error), file) from error
        for name, record in strikes.nodes.items():
            if record.lost_in_run > strikes.runs:
                raise _damaged(f"{name!r} was lost in run {record.lost_in_run} of {strikes.runs}", file)
        return strikes


def _damaged(found: str, file: str | Path) -> InputError:
    remedy = "repair it, or delete it to forgive every node its strikes"
    return InputError(f"not a record of strikes: {found}", file=file, remedy=remedy)
