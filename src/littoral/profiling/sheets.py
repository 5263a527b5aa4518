"""Rows as CSV: one column per number, states spread out under a prefix. What cannot be a measurement is refused."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, TypeVar

from littoral.document import suggest
from littoral.errors import InputError, brief
from littoral.profiling.rows import AppRow, State, TrainingRow

Row = TypeVar("Row", TrainingRow, AppRow)
_REPAIR = "correct this row or delete it"
_LATER = "_pace"  # columns that rows of earlier sweeps do not have
_POSITIVE = {"compute_s", "tail_s", "mean_s", "deadline_s", "batch", "workers", "batch_sum", "batch_max"}


def written(kind: type[Row], rows: Sequence[Row]) -> str:
    """CSV text, a header first; numbers keep every digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(_columns(kind)))
    writer.writerows([_cell(value) for value in _values(row)] for row in rows)
    return out.getvalue()


def read(kind: type[Row], text: str, file: Path) -> tuple[Row, ...]:
    """Rows from CSV text; ``file`` is for messages."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    parsers = _columns(kind)
    try:
        header = next(reader, [])
        _check_header(header, list(parsers), file)
        return tuple(
            _placed(kind, cells, header, parsers, file, reader.line_num) for cells in reader if cells
        )  # fmt: skip
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=file, line=reader.line_num, remedy=_REPAIR) from error


def _placed(
    kind: type[Row], cells: list[str], header: list[str], parsers: Mapping[str, Callable[[str], Any]], file: Path,
    line: int,
) -> Row:  # fmt: skip
    try:
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} values for {len(header)} columns", remedy=_REPAIR)
        found = {name: _parsed(name, cell, parsers[name]) for name, cell in zip(header, cells, strict=True)}
        return _assembled(kind, found)
    except InputError as error:
        raise error.at(file, line) from error


def _assembled(kind: type[Row], found: Mapping[str, Any]) -> Row:
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.type == "State":
            state: dict[str, Any] = {part.name: found.get(f"{field.name}_{part.name}") for part in fields(State)}
            values[field.name] = State(**state)
        else:
            values[field.name] = found[field.name]
    if "batch" in values and not values["batch"] <= values["batch_max"] <= values["batch_sum"]:
        raise InputError("batch, batch_max and batch_sum do not fit together", remedy=_REPAIR)
    return kind(**values)


def _check_header(header: list[str], known: list[str], file: Path) -> None:
    for name in header:
        if name not in known or header.count(name) > 1:
            found = f"column {brief(name)} is {'given twice' if name in known else 'unknown'}"
            raise InputError(found, file=file, line=1, remedy=suggest(name, known))
    for name in known:
        if name not in header and not name.endswith(_LATER):
            remedy = "measure again, or restore the file from a copy"
            raise InputError(f"column {name!r} is missing", file=file, line=1, remedy=remedy)


def _columns(kind: type[Row]) -> dict[str, Callable[[str], Any]]:
    """Every column with the parser of its cells."""
    found: dict[str, Callable[[str], Any]] = {}
    for field in fields(kind):
        if field.type == "State":
            found |= {f"{field.name}_{part.name}": _parser(part) for part in fields(State)}
        else:
            found[field.name] = _parser(field)
    return found


def _parser(field: Field[Any]) -> Callable[[str], Any]:
    return {"int": int, "str": str, "float": float}.get(str(field.type), _optional)


def _optional(text: str) -> float | None:
    return float(text) if text else None


def _parsed(name: str, cell: str, parser: Callable[[str], Any]) -> Any:
    try:
        value = parser(cell)
    except ValueError as error:
        raise InputError(f"{name}: {brief(cell)} is not a number", remedy=_REPAIR) from error
    if isinstance(value, int | float):
        if not math.isfinite(value) or (value < 0 and not name.endswith("celsius")):
            raise InputError(f"{name}: {brief(cell)} cannot be measured", remedy=_REPAIR)
        if value == 0 and name in _POSITIVE:
            raise InputError(f"{name} is zero", remedy=_REPAIR)
    elif value == "":
        raise InputError(f"{name} is empty", remedy=_REPAIR)
    return value


def _values(row: TrainingRow | AppRow) -> Iterator[Any]:
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, State):
            yield from (getattr(value, part.name) for part in fields(State))
        else:
            yield value


def _cell(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)
