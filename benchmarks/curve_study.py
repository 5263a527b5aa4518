"""Recorded curves told to the accuracy monitor one evaluation at a time, as a run would; and to simpler rules."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from curve_recording import Setting
from littoral.supervisor import CONSECUTIVE
from littoral.watching.accuracy import AccuracyMonitor, Forecast
from littoral.watching.learning_curves import FEWEST
from trials import known

SHARES = (0.25, 0.5, 0.75)  # of the training that was needed: when forecasts are looked at
SHORT_OF_END = 0.01  # so much below where a curve ends is the target that is foretold
ENOUGH = 0.003  # accuracy that may be given up
PATIENCES, LONGER = (3, 5, 10), (8, 12, 15, 18, 20, 25)
GAIN, GAINS = 0.002, (0.0005, 0.001, 0.002, 0.003, 0.005)
FEW = 300  # validation samples: noisy


@dataclass(frozen=True)
class Curve:
    """Accuracies after every epoch: on validation samples, and on those that no rule looks at."""

    setting: Setting
    judged: tuple[float, ...]
    held_out: tuple[float, ...]


def read(path: Path, part: str = "") -> list[Curve]:
    """The curves of a file that are for tuning or for testing, or all."""
    curves = []
    for key, row in known(path).items():
        setting = Setting(**json.loads(key))
        if part in ("", setting.part):
            judged, held_out = (tuple(point[column] for point in row["curve"]) for column in (2, 4))
            curves.append(Curve(setting, judged, held_out))
    return curves


def watch(curve: Sequence[float], monitor: AccuracyMonitor) -> int:
    """After how many epochs the monitor ends training."""
    for epoch, accuracy in enumerate(curve, start=1):
        monitor.add(epoch, accuracy)
        if monitor.should_stop():
            assert min(FEWEST, len(curve)) <= epoch <= monitor.most_epochs
            return epoch
    return len(curve)


# -- rules that end training --------------------------------------------------------------------------------------

Rule = Callable[[tuple[float, ...]], int]  # epochs that are trained of a curve


@cache
def watched(curve: tuple[float, ...], gain: float) -> tuple[AccuracyMonitor, int]:
    """A monitor that was told a curve, and after how many epochs it ended training."""
    monitor = AccuracyMonitor(most_epochs=len(curve), gain=gain)
    return monitor, watch(curve, monitor)


def by_monitor(curve: tuple[float, ...], *, gain: float = GAIN) -> int:
    return watched(curve, gain)[1]


def by_patience(curve: Sequence[float], *, patience: int) -> int:
    """Stop when so many epochs in a row brought no better accuracy."""
    for epoch in range(patience + 1, len(curve)):
        if max(curve[epoch - patience : epoch]) <= max(curve[: epoch - patience]):
            return epoch
    return len(curve)


def by_hindsight(curve: Sequence[float]) -> int:
    """The fewest epochs with which no more than enough is given up: no rule can know them."""
    return next(epoch for epoch in range(1, len(curve) + 1) if max(curve[:epoch]) >= max(curve) - ENOUGH)


RULES: dict[str, Rule] = {
    "monitor": by_monitor,
    **{f"patience {count}": partial(by_patience, patience=count) for count in PATIENCES},
    "no early stop": len,
    f"hindsight, {100 * ENOUGH:g} points": by_hindsight,
}


@dataclass(frozen=True)
class Outcome:
    """What stopping one curve saved, and the accuracy it gave up, all as shares."""

    saved: float
    best: float  # the best of the whole curve, less the best until the stop
    last: float  # the last of the whole curve, less the last before the stop
    held_out: float  # on samples that no rule saw: the best model of the whole curve, less the best until the stop


def outcome(curve: Curve, rule: Rule) -> Outcome:
    judged, held_out = curve.judged, curve.held_out
    end = rule(judged)
    whole, kept = judged.index(max(judged)), judged.index(max(judged[:end]))
    return Outcome(
        saved=1 - end / len(judged),
        best=judged[whole] - judged[kept],
        last=judged[-1] - judged[end - 1],
        held_out=held_out[whole] - held_out[kept],
    )


def stopping(curves: Sequence[Curve]) -> str:
    """Markdown: every rule's epochs saved and accuracy given up."""
    return _outcomes({name: [outcome(curve, rule) for curve in curves] for name, rule in RULES.items()}, "rule")


def kinds(curves: Sequence[Curve]) -> str:
    """Markdown: the monitor on each kind of curve."""
    groups: dict[str, list[Outcome]] = {}
    for curve in curves:
        groups.setdefault(kind(curve.setting), []).append(outcome(curve, by_monitor))
    return _outcomes(dict(sorted(groups.items())), "curves")


def trading(curves: Sequence[Curve]) -> str:
    """Markdown: the monitor with other gains, and longer patience."""
    rules: dict[str, Rule] = {f"monitor, gain {gain:g}": partial(by_monitor, gain=gain) for gain in GAINS}
    rules |= {f"patience {count}": partial(by_patience, patience=count) for count in LONGER}
    return _outcomes({name: [outcome(curve, rule) for curve in curves] for name, rule in rules.items()}, "rule")


def kind(setting: Setting) -> str:
    """What is special about a curve, or the data set."""
    if setting.change:
        return "warm-started"
    if setting.wrong:
        return "wrong labels"
    return "few validation samples" if setting.judged < FEW else setting.task


def _outcomes(groups: Mapping[str, Sequence[Outcome]], head: str) -> str:
    lines = [f"| {head} | n | epochs saved, % | given up: of the best | of the last | held out | over a point |"]
    lines.append("|---" * 7 + "|")
    for name, outcomes in groups.items():
        cells = [sure([100 * getattr(o, field) for o in outcomes]) for field in ("saved", "best", "last", "held_out")]
        much = sum(o.best > 0.01 for o in outcomes)
        lines.append(f"| {name} | {len(outcomes)} | " + " | ".join(cells) + f" | {much} |")
    return "\n".join(lines)


# -- forecasts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foretold:
    """A forecast when a share of the training was done, and the epochs that were needed."""

    share: float
    forecast: Forecast
    needed: int
    allowed: int

    @property
    def error(self) -> float:
        return self.forecast.epochs / self.needed - 1

    @property
    def held(self) -> bool:
        return self.forecast.low <= self.needed <= self.forecast.high


def of_targets(curve: Curve) -> list[Foretold]:
    """Forecasts of when a target is reached that is a little below where the curve ends."""
    judged, tail = curve.judged, curve.judged[-max(CONSECUTIVE, len(curve.judged) // 5) :]
    target = statistics.median(tail) - SHORT_OF_END
    needed = next((e for e in range(3, len(judged) + 1) if statistics.median(judged[e - 3 : e]) >= target), 0)
    monitor = AccuracyMonitor(most_epochs=len(judged), target=target)
    for epoch, accuracy in enumerate(judged[:needed], start=1):
        monitor.add(epoch, accuracy)
    return _at_shares(monitor, needed)


def of_stops(curve: Curve) -> list[Foretold]:
    """Forecasts of when the monitor itself will end training."""
    return _at_shares(*watched(curve.judged, GAIN))


def _at_shares(monitor: AccuracyMonitor, needed: int) -> list[Foretold]:
    found = []
    for share in SHARES:
        forecast = monitor.forecasts[round(share * needed) - 1] if round(share * needed) >= FEWEST else None
        if forecast is not None:
            found.append(Foretold(share, forecast, needed, int(monitor.most_epochs)))
    return found


def forecasting(curves: Sequence[Curve]) -> str:
    """Markdown: how far off forecasts of the target and of the stop are, beside the user's maximum as a forecast."""
    lines = [
        "| foretold | after | curves | size of the error, %: mean ± deviation | median | bias, % | inside the interval"
    ]
    lines[0] += " | the user's maximum: mean, % | median |"
    lines.append("|---" * 9 + "|")
    for name, ask in (("target", of_targets), ("stop", of_stops)):
        told = [foretold for curve in curves for foretold in ask(curve)]
        for share in SHARES:
            lines.append(f"| {name} | {100 * share:g} % |" + _errors([f for f in told if f.share == share]))
    return "\n".join(lines)


def _errors(told: Sequence[Foretold]) -> str:
    sizes = [100 * abs(f.error) for f in told]
    naive = [100 * (f.allowed / f.needed - 1) for f in told]
    bias = statistics.mean(100 * f.error for f in told)
    held = 100 * statistics.mean(f.held for f in told)
    return (
        f" {len(told)} | {spread(sizes)} | {statistics.median(sizes):.0f} | {bias:+.0f} | {held:.0f} % |"
        f" {statistics.mean(naive):.0f} | {statistics.median(naive):.0f} |"
    )


def spread(values: Iterable[float]) -> str:
    """Mean and standard deviation."""
    given = list(values)
    return f"{statistics.mean(given):.2f} ± {statistics.pstdev(given):.2f}"


def sure(values: Sequence[float]) -> str:
    """Mean and its standard error; of one value there is none."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else math.nan
    return f"{statistics.mean(values):.2f} ± {error:.2f}"
