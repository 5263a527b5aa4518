"""How well each function is known: errors on stress points that were not learned, as in Deep-Edge's Table I."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from littoral.profiling.features import TRAINING
from littoral.profiling.profile import Key, Profile

_TITLES = {"compute": "EstComputeTime", "update": "EstUpdateTime"}


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
    algorithm: str
    columns: tuple[str, ...]


def table(profile: Profile) -> list[TableRow]:
    """A row per function, by device kind and task."""
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
            algorithm=choice.recipe.family if choice.recipe.columns else "constant",
            columns=choice.recipe.columns,
        )
        for key, choice in sorted(profile.choices.items(), key=lambda item: _rank(item[0]))
    ]


def show(rows: Sequence[TableRow]) -> str:
    """The table as text, with the plain mean of the errors below (what never changed left out)."""
    head = ["function", "kind", "task", "points", "rows", "MAPE %", "algorithm", "columns"]
    body = [
        [r.function, r.kind, r.task or "-", f"{r.train_points}/{r.test_points}", f"{r.train_rows}/{r.test_rows}",
         f"{100 * r.mape:.2f} ± {100 * r.mape_sd:.2f}", r.algorithm, ", ".join(r.columns) or "-"]
        for r in rows
    ]  # fmt: skip
    varying = [row.mape for row in rows if row.algorithm != "constant" or row.mape > 1e-4]
    mean = sum(varying) / max(1, len(varying))
    note = "points and rows: learned/tested; shares below 1 % count as 1 % in the error"
    return f"{_aligned(head, body)}\n\nmean of all: {100 * mean:.2f} %; {note}"


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
    if name.startswith("exec:"):
        return f"EstExecTime {name.removeprefix('exec:')}"
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
