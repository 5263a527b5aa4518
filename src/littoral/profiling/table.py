"""How well each function is known: errors on stress points that were not learned, as in Deep-Edge's Table I."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from littoral.profiling.estimators import everything
from littoral.profiling.features import TRAINING, Data, app_of
from littoral.profiling.profile import Key, Profile

_TITLES = {"compute": "EstComputeTime", "update": "EstUpdateTime"}
_PUBLISHED = ("compute", "update", "cpu", "gpu", "memory", "exec")  # the paper's; the others are ours


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One function on one kind of device; errors are shares, not per cents."""

    function: str
    kind: str
    task: str
    train_points: int
    test_points: int
    train_rows: int
    test_rows: int
    mape: float
    mape_sd: float
    floor: float | None  # what remains if a model is perfect: how much the same point differs when measured again
    algorithm: str
    columns: tuple[str, ...]
    published: bool  # whether it is one of the paper's functions
    splits: int = 1

    @property
    def points(self) -> str:
        """Learned/tested, and in how many ways."""
        return f"{self.train_points}/{self.test_points}" + (f" x{self.splits}" if self.splits > 1 else "")


def table(profile: Profile) -> list[TableRow]:
    """A row per function, by device kind and task."""
    floors = {key: floor for key, data in everything(profile) if (floor := repeatability(data)) is not None}
    return [
        TableRow(
            function=_title(key.function),
            kind=key.kind,
            task=key.task,
            train_points=choice.train_points,
            test_points=choice.test_points,
            train_rows=choice.train_rows,
            test_rows=choice.test_rows,
            mape=choice.mape,
            mape_sd=choice.mape_sd,
            floor=floors.get(key),
            published=key.function.partition(":")[0] in _PUBLISHED,
            algorithm=choice.recipe.family if choice.recipe.columns else "constant",
            columns=choice.recipe.columns,
            splits=choice.splits,
        )
        for key, choice in sorted(profile.choices.items(), key=lambda item: _rank(item[0]))
    ]


def show(rows: Sequence[TableRow]) -> str:
    """The table as text, with plain means of the errors below."""
    head = ["function", "kind", "task", "points", "rows", "MAPE %", "floor %", "algorithm", "columns"]
    body = [
        [r.function, r.kind, r.task or "-", r.points, f"{r.train_rows}/{r.test_rows}",
         f"{100 * r.mape:.2f} ± {100 * r.mape_sd:.2f}", "-" if r.floor is None else f"{100 * r.floor:.2f}",
         r.algorithm, ", ".join(r.columns) or "-"]
        for r in rows
    ]  # fmt: skip
    note = (
        "points and rows: learned/tested (x6: in six splits, each point tested once); errors are against the mean of a "
        "point's visits, and their floor is how far such means are off; shares below 1 % count as 1 % in the error"
    )
    return f"{_aligned(head, body)}\n\n{summary(rows)}\n{note}"


def summary(rows: Sequence[TableRow]) -> str:
    """Plain means of the errors: of the paper's functions, and of all; what never varied is left out."""
    rows = [row for row in rows if row.algorithm != "constant" or row.mape > 1e-4]
    published = [row for row in rows if row.published]
    known = [row.floor for row in published if row.floor is not None]
    floor = f", floor {100 * sum(known) / len(known):.2f} %" if known else ""
    return (
        f"mean of the paper's {len(published)} functions: {100 * _mean(published):.2f} % (published: 3.43 %){floor}; "
        f"mean of all {len(rows)}: {100 * _mean(rows):.2f} %"
    )


def _mean(rows: Sequence[TableRow]) -> float:
    return sum(row.mape for row in rows) / max(1, len(rows))


def repeatability(data: Data) -> float | None:
    """The mean relative error that a perfect model would have, from rows that differ by nothing that was set.

    Two measurements of one value differ from each other by the square root of two times as much as from the truth, and
    the mean of n visits by the square root of n times less than each of them.
    """
    same: dict[int, list[float]] = {}
    for setting, value in zip(data.settings.tolist(), data.y.tolist(), strict=True):
        same.setdefault(setting, []).append(value)
    gaps = [abs(a - b) / max((a + b) / 2, data.floor) for values in same.values() for a, b in pairwise(values)]
    means = sum(1 / math.sqrt(len(values)) for values in same.values()) / max(1, len(same))
    return means * sum(gaps) / len(gaps) / math.sqrt(2) if gaps else None


def show_importances(profile: Profile) -> str:
    """How much the error grows when a column is shuffled, times the error itself; the columns in use are starred."""
    body = [
        [_title(key.function), key.kind, key.task or "-", name + ("*" if name in choice.recipe.columns else ""),
         f"{weight:.2f}"]
        for key, choice in sorted(profile.choices.items(), key=lambda item: _rank(item[0]))
        for name, weight in sorted(choice.importances.items(), key=lambda item: -item[1])
        if weight or name in choice.recipe.columns
    ]  # fmt: skip
    return _aligned(["function", "kind", "task", "column", "importance"], body)


def _title(name: str) -> str:
    if app := app_of(name):
        return f"EstExecTime {app}" if name.startswith("exec:") else f"95 % of {app} within"
    return _TITLES.get(name, f"EstState {name}")


def _rank(key: Key) -> tuple[str, int, str, str]:
    """Kinds together, each with its functions in the order of the paper, apps last."""
    order = TRAINING.index(key.function) if key.function in TRAINING else len(TRAINING)
    return key.kind, order, key.task, key.function


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    cells.insert(1, ["-" * width for width in widths])
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
