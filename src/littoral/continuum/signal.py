"""Anything that varies with time: ``at(t)`` gives the value, ``next_change(t)`` when it may next differ.

Signals are piecewise constant, so a simulator can jump from change to change; constant, step, trace, periodic
and scaled signals compose and are interchangeable.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from littoral.errors import InputError


class Signal(Protocol):
    """A value over time, constant between changes."""

    def at(self, t: float) -> float:
        """The value at time ``t`` (seconds since the start of the run)."""
        ...

    def next_change(self, t: float) -> float:
        """The first time after ``t`` at which the value may differ; ``inf`` if it never does."""
        ...

    def mean(self) -> float:
        """The long-run mean, which planners use."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same.

    >>> Constant(3.0).at(100.0)
    3.0
    """

    value: float

    def at(self, t: float) -> float:
        return self.value

    def next_change(self, t: float) -> float:
        return math.inf

    def mean(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Steps:
    """Takes ``values[i]`` from ``times[i]`` on; repeats every ``period`` seconds if one is given.

    >>> Steps(times=(0.0, 10.0), values=(1.0, 2.0), period=20.0).at(35.0)
    2.0
    """

    times: tuple[float, ...]
    values: tuple[float, ...]
    period: float = math.inf

    def __post_init__(self) -> None:
        if not self.times or len(self.times) != len(self.values):
            raise InputError("a stepped signal needs as many values as times, at least one")
        if self.times[0] != 0.0 or any(b <= a for a, b in zip(self.times, self.times[1:], strict=False)):
            raise InputError("times must start at 0 and increase strictly")
        if self.period <= self.times[-1]:
            raise InputError("the period must be longer than the last step's time")

    def at(self, t: float) -> float:
        return self.values[bisect_right(self.times, self._phase(t)[1]) - 1]

    def next_change(self, t: float) -> float:
        cycle, phase = self._phase(t)
        index = bisect_right(self.times, phase)
        if index < len(self.times):
            return cycle + self.times[index]
        return cycle + self.period

    def mean(self) -> float:
        if math.isinf(self.period):
            return self.values[-1]
        ends = (*self.times[1:], self.period)
        area = sum(v * (b - a) for v, a, b in zip(self.values, self.times, ends, strict=True))
        return area / self.period

    def _phase(self, t: float) -> tuple[float, float]:
        """Start of the present cycle and the time within it; a change never falls on its own past."""
        if math.isinf(self.period):
            return 0.0, max(t, 0.0)
        cycle = math.floor(t / self.period) * self.period
        phase = t - cycle
        # t just below a multiple may round to phase == period: that is the next cycle's start.
        return (cycle + self.period, 0.0) if phase >= self.period else (cycle, max(phase, 0.0))


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another signal, multiplied."""

    signal: Signal
    factor: float

    def at(self, t: float) -> float:
        return self.signal.at(t) * self.factor

    def next_change(self, t: float) -> float:
        return self.signal.next_change(t)

    def mean(self) -> float:
        return self.signal.mean() * self.factor


def read_trace(path: Path, column: str = "mbps", factor: float = 1e6 / 8) -> Steps:
    """A CSV trace with columns ``t_s`` and ``mbps`` as a signal in bytes/s that repeats when it ends."""
    rows = _trace_rows(path, column)
    if not rows:
        raise InputError("the trace is empty", file=path, line=1, remedy="give at least two rows of t_s,mbps")
    first = rows[0][1]
    times = [t - first for _, t, _ in rows]
    for (line, _, _), earlier, later in zip(rows[1:], times, times[1:], strict=False):
        if later <= earlier:
            raise InputError("t_s does not increase", file=path, line=line, remedy="sort the trace by t_s")
    last_step = times[-1] - times[-2] if len(times) > 1 else 1.0
    return Steps(tuple(times), tuple(v * factor for _, _, v in rows), period=times[-1] + last_step)


def _trace_rows(path: Path, column: str) -> list[tuple[int, float, float]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            fields: Sequence[str] = reader.fieldnames or ()
            for needed in ("t_s", column):
                if fields and needed not in fields:
                    remedy = f"give the columns t_s,{column}"
                    raise InputError(f"no column {needed!r}", file=path, line=1, remedy=remedy)
            return [(reader.line_num, _cell(row, "t_s", path, reader.line_num, signed=True),
                     _cell(row, column, path, reader.line_num, signed=False)) for row in reader]  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot read the trace: {error.strerror}", file=path, remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError("the trace is not text", file=path, remedy="give a CSV file of t_s,mbps") from error


def _cell(row: dict[str, str], name: str, path: Path, line: int, *, signed: bool) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (value < 0 and not signed):
        expected = "a finite number" if signed else "a finite number, zero or more"
        raise InputError(f"{name} is {row[name]!r}", file=path, line=line, remedy=f"expected {expected}")
    return value
