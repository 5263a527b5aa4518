"""Anything that varies with time: ``at(t)`` gives the value, ``next_change(t)`` when it may next differ.

Signals are piecewise constant, so a simulator can jump from change to change; constant, step, trace, periodic
and scaled signals compose and are interchangeable.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from littoral.errors import InputError, brief


class Signal(Protocol):
    """A value over time, constant between changes."""

    def at(self, t: float) -> float:
        """The value at time ``t`` (seconds since the start of the run)."""
        ...

    def next_change(self, t: float) -> float:
        """The first time after ``t`` at which the value may differ; ``inf`` if it never does."""
        ...

    def peak(self) -> float:
        """The most it ever is."""
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

    def peak(self) -> float:
        return self.value

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
    _mean: float = field(init=False, repr=False, compare=False)  # planners ask often, traces are long

    def __post_init__(self) -> None:
        if not self.times or len(self.times) != len(self.values):
            raise InputError("there are not as many values as times", remedy="give at least one [time, value]")
        if self.times[0] != 0.0 or not all(a < b for a, b in pairwise(self.times)):
            raise InputError("the times do not start at 0 and increase", remedy="sort them, the first being 0 s")
        if not self.period > self.times[-1]:
            raise InputError("it repeats before its last step", remedy="repeat later than the last time")
        if any(math.isnan(value) for value in self.values):
            raise InputError("a value is not a number", remedy="give finite values")
        object.__setattr__(self, "_mean", self._long_run())

    def at(self, t: float) -> float:
        start, _ = self._cycle(t)
        return self.values[max(self._index(t, start) - 1, 0)]

    def next_change(self, t: float) -> float:
        start, end = self._cycle(t)
        index = self._index(t, start)
        change = min(start + self.times[index], end) if index < len(self.times) else end
        return max(change, math.nextafter(t, math.inf))

    def peak(self) -> float:
        return max(self.values)

    def mean(self) -> float:
        return self._mean

    def _long_run(self) -> float:
        if math.isinf(self.period):
            return self.values[-1]
        ends = (*self.times[1:], self.period)
        area = sum(v * (b - a) for v, a, b in zip(self.values, self.times, ends, strict=True))
        return area / self.period

    def _index(self, t: float, start: float) -> int:
        """How many steps of the cycle have begun. INVARIANT: compares what ``next_change`` returns."""
        return bisect_right(self.times, t, key=lambda time: start + time)

    def _cycle(self, t: float) -> tuple[float, float]:
        """Start and end of the present cycle: ``start <= t < end``, as far as floats can tell."""
        if math.isinf(self.period):
            return 0.0, math.inf
        cycle = math.floor(t / self.period)
        if cycle * self.period > t:
            cycle -= 1
        elif (cycle + 1) * self.period <= t:
            cycle += 1
        return cycle * self.period, (cycle + 1) * self.period


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another signal, multiplied."""

    signal: Signal
    factor: float

    def at(self, t: float) -> float:
        return self.signal.at(t) * self.factor

    def next_change(self, t: float) -> float:
        return self.signal.next_change(t)

    def peak(self) -> float:
        return self.signal.peak() * self.factor

    def mean(self) -> float:
        return self.signal.mean() * self.factor


@dataclass(frozen=True, slots=True)
class Lowest:
    """The lowest of several signals at each time. The mean is that of the lowest mean: an upper bound."""

    signals: tuple[Signal, ...]

    def at(self, t: float) -> float:
        return min(signal.at(t) for signal in self.signals)

    def next_change(self, t: float) -> float:
        return min(signal.next_change(t) for signal in self.signals)

    def peak(self) -> float:
        return min(signal.peak() for signal in self.signals)

    def mean(self) -> float:
        return min(signal.mean() for signal in self.signals)


def read_trace(path: Path, column: str = "mbps", factor: float = 1e6 / 8) -> Steps:
    """A CSV trace with columns ``t_s`` and ``mbps`` as a signal in bytes/s that repeats when it ends."""
    rows = _trace_rows(path, column)
    if not rows:
        remedy = f"give a heading t_s,{column} and at least one row"
        raise InputError("the trace is empty", file=path, line=1, remedy=remedy)
    times = [t - rows[0][1] for _, t, _ in rows]
    for (line, _, _), (earlier, later) in zip(rows[1:], pairwise(times), strict=True):
        if later <= earlier:
            raise InputError("t_s does not increase", file=path, line=line, remedy="sort the trace by t_s")
    last_step = times[-1] - times[-2] if len(times) > 1 else 1.0
    period = max(times[-1] + last_step, math.nextafter(times[-1], math.inf))
    return Steps(tuple(times), tuple(v * factor for _, _, v in rows), period=period)


def _trace_rows(path: Path, column: str) -> list[tuple[int, float, float]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            fields: Sequence[str] = reader.fieldnames or ()
            for needed in ("t_s", column):
                if fields and needed not in fields:
                    remedy = f"begin the trace with the heading t_s,{column}"
                    raise InputError(f"there is no column {needed!r}", file=path, line=1, remedy=remedy)
            return [(reader.line_num, _cell(row, "t_s", path, reader.line_num, signed=True),
                     _cell(row, column, path, reader.line_num, signed=False)) for row in reader]  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy="check the path") from error
    except (UnicodeDecodeError, csv.Error) as error:
        remedy = f"give a CSV file with the columns t_s,{column}"
        raise InputError("the trace is not a text file", file=path, line=1, remedy=remedy) from error


def _cell(row: dict[str, str | None], name: str, path: Path, line: int, *, signed: bool) -> float:
    text = row[name]
    try:
        value = float(text or "nan")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (value < 0 and not signed):
        found = f"{name} is {brief(text)}" if text else f"{name} is missing"
        remedy = "give a finite number" if signed else "give a finite number, zero or more"
        raise InputError(found, file=path, line=line, remedy=remedy)
    return value
