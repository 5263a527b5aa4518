"""Deep-Edge's figures from a profile's rows, for Plotly: distributions, contention, states, responses, speed-ups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from littoral.planning.plan import Plan
from littoral.reports.figures import Figure, figure
from littoral.reports.markup import duration
from littoral.reports.palette import Look, looks, time_axis
from littoral.reports.profile_numbers import Response, Series, Third, solved, step_seconds

PAPERS_SPEEDUP = 1.54
_GREY = "#7f8c99"
_WIDE = 8  # times the least value: from here on an axis of seconds is logarithmic
_HEIGHT = 360
_BIN = 0.1

Axis = dict[str, Any]
Trace = dict[str, Any]


def look_of(labels: Sequence[str]) -> dict[str, Look]:
    """A look per label, the same in every figure of the page."""
    return looks(list(labels))


# -- figures 3 to 5 --------------------------------------------------------------------------------------


def step_figure(series: Sequence[Series]) -> Figure:
    """Figure 3: the share of windows whose step took no longer, by device kind."""
    found = {one.label: [step_seconds(row) for row in one.rows] for one in series}
    x = _seconds_axis("step time per sample", [time for times in found.values() for time in times])
    return figure(_cumulative(found), 400, "", _shares("share of windows"), x=x)


def contention_figure(thirds: Mapping[str, tuple[Third, Third]]) -> Figure:
    """Figure 4: step times with little and with much contention, beside those with the same batch."""
    names = ("little contention", "much contention")
    data = [_bars(name, [(kind, pair[i]) for kind, pair in thirds.items()], i) for i, name in enumerate(names)]
    y = {"title": {"text": "step time / usual at that batch"}, "rangemode": "tozero"}
    return figure(data, _HEIGHT, "", y, barmode="group", bargap=0.35)


def _bars(name: str, found: Sequence[tuple[str, Third]], number: int) -> Trace:
    middles = [third.quartiles[1] for _, third in found]
    look = look_of(("little", "much"))[("little", "much")[number]]
    return {
        "type": "bar",
        "name": name,
        "x": [escape(kind) for kind, _ in found],
        "y": middles,
        "marker": {"color": look.colour, "pattern": {"shape": "/" if number else ""}},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [third.quartiles[2] - third.quartiles[1] for _, third in found],
            "arrayminus": [third.quartiles[1] - third.quartiles[0] for _, third in found],
            "color": _GREY,
        },
        "hovertemplate": "%{x}: %{y:.3g}",
    }


def state_figure(series: Sequence[Series], metric: str) -> Figure:
    """Figure 5: a share in use during training against the one before, and the line of no change."""
    look = look_of([one.label for one in series])
    data: list[Trace] = [
        {"type": "scatter", "mode": "lines", "x": [0, 100], "y": [0, 100], "hoverinfo": "skip", "showlegend": False,
         "line": {"color": _GREY, "dash": "dash", "width": 1}}
    ]  # fmt: skip
    for one in series:
        before = [100 * float(getattr(row.before, metric)) for row in one.rows]
        during = [100 * float(getattr(row.during, metric)) for row in one.rows]
        data.append(_points(one.label, before, during, look[one.label]))
    y = {"title": {"text": "during training (%)"}, "range": [-3, 105]}
    return figure(data, _HEIGHT, "before training (%)", y, x={"range": [-3, 105]})


# -- figure 9 --------------------------------------------------------------------------------------------


def response_figure(found: Sequence[Response], x: Axis, y_title: str, *, share: bool) -> Figure:
    """Figure 9: measured points, the learned function and its interval; ``share`` shows values in per cent."""
    look, factor = look_of([one.label for one in found]), 100.0 if share else 1.0
    data: list[Trace] = []
    for one in found:
        data += _curve(one, look[one.label], factor)
    values = [float(value) for one in found for value in (*one.y, *one.mean)]
    y = {"title": {"text": f"{y_title} (%)"}, "rangemode": "tozero"} if share else _seconds_axis(y_title, values)
    return figure(data, _HEIGHT, "", y, x=x)


def _curve(one: Response, look: Look, factor: float) -> list[Trace]:
    points = _points(one.label, one.x, factor * one.y, look, legend=len(one.grid) < 2)
    if len(one.grid) < 2:
        return [points]
    around = {"x": [*one.grid, *one.grid[::-1]], "y": [*(factor * one.low), *(factor * one.high[::-1])]}
    band = {"type": "scatter", "mode": "none", "fill": "toself", "fillcolor": _faint(look.colour), **around,
            "hoverinfo": "skip", "showlegend": False, "legendgroup": escape(one.label)}  # fmt: skip
    line = {"type": "scatter", "mode": "lines", "name": escape(one.label), "legendgroup": escape(one.label),
            "x": list(one.grid), "y": list(factor * one.mean), "hovertemplate": "learned: %{y:.3g} at %{x:.3g}",
            "line": {"color": look.colour, "dash": look.dash, "width": 2}}  # fmt: skip
    return [band, points, line]


def input_axis(found: Sequence[Response], title: str, column: str) -> Axis:
    """The axis of an input: batches double, workers are whole, shares are per cents."""
    named = {"title": {"text": title}, "rangemode": "normal"}
    if column == "workers":
        return named | {"dtick": 1}
    if column != "batch":
        return named | {"tickformat": ".1~%"}
    low, high = (end(float(end(one.x)) for one in found) for end in (min, max))
    ticks = [2.0**i for i in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]
    return named | {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


# -- figures 10 and 11, and fronts -----------------------------------------------------------------------


def epoch_figure(times: Mapping[str, Sequence[float]]) -> Figure:
    """Figure 10: the share of experiments whose epoch takes no longer, by solver."""
    found = {name: solved(values) for name, values in times.items()}
    factor, unit = time_axis(max(time for values in found.values() for time in values))
    scaled = {name: [time / factor for time in values] for name, values in found.items() if values}
    return figure(_cumulative(scaled), 400, f"epoch time ({unit})", _shares("share of experiments"))


def speedup_figure(found: Mapping[str, Sequence[float]]) -> Figure:
    """Figure 11: how often an epoch was so many times shorter than with equal shards."""
    look = look_of(list(found))
    highest = max(value for values in found.values() for value in values)
    bins = {"start": 0, "end": _BIN * (math.ceil(highest / _BIN) + 1), "size": _BIN}
    data = [
        {"type": "histogram", "name": escape(name), "x": list(values), "xbins": bins, "autobinx": False,
         "marker": {"color": look[name].colour, "pattern": {"shape": "/" if i else ""}},
         "hovertemplate": "%{x}: %{y}"}
        for i, (name, values) in enumerate(found.items())
    ]  # fmt: skip
    lowest = min(value for values in found.values() for value in values)
    span = [min(0.9, lowest) - _BIN, max(PAPERS_SPEEDUP, highest) + _BIN]
    lines, notes = _upright(((1.0, "equal"), (PAPERS_SPEEDUP, "paper's mean")))
    return figure(data, 400, "epoch time with equal shards / solver's", {"title": {"text": "experiments"}},
                  x={"range": span}, barmode="group", shapes=lines, annotations=notes,
                  margin={"l": 8, "r": 14, "t": 48, "b": 8})  # fmt: skip


def _upright(marks: Sequence[tuple[float, str]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lines = [{"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x,
              "line": {"dash": "dash", "width": 1.5, "color": _GREY}} for x, _ in marks]  # fmt: skip
    notes = [{"yref": "paper", "y": 1, "x": x, "text": text, "showarrow": False, "xanchor": "center",
              "yanchor": "bottom"} for x, text in marks]  # fmt: skip
    return lines, notes


def front_figure(plans: Sequence[tuple[Plan, float]]) -> Figure:
    """Cost against time, fairness by colour, every plan with the number by which it can be picked."""
    factor, unit = time_axis(max(plan.predicted.time_s for plan, _ in plans))
    fairness = [fair for _, fair in plans]
    dots = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [plan.predicted.time_s / factor for plan, _ in plans],
        "y": [plan.predicted.cost_usd for plan, _ in plans],
        "text": [str(number) for number in range(1, len(plans) + 1)],
        "textposition": "top right",
        "cliponaxis": False,
        "customdata": fairness,
        "marker": {
            "size": 12,
            "color": fairness,
            "cmin": min(0.9, *fairness),
            "cmax": 1.0,
            "colorscale": "Viridis",
            "showscale": True,
            "colorbar": {"title": {"text": "fairness"}, "thickness": 12},
            "line": {"width": 1, "color": _GREY},
        },
        "hovertemplate": f"%{{x:.4g}} {unit}, %{{y:.3g}} USD, fairness %{{customdata:.3g}}<extra>%{{text}}</extra>",
    }  # fmt: skip
    y = {"title": {"text": "predicted cost (USD)"}, "rangemode": "tozero"}
    return figure([dots], 420, f"predicted time ({unit})", y, x={"rangemode": "normal"})


# -- pieces ----------------------------------------------------------------------------------------------


def _points(label: str, x: Iterable[float], y: Iterable[float], look: Look, *, legend: bool = True) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape(label),
        "legendgroup": escape(label),
        "showlegend": legend,
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": look.symbol, "size": 6, "color": look.colour, "opacity": 0.65},
        "hovertemplate": "%{y:.3g} at %{x:.3g}",
    }


def _cumulative(found: Mapping[str, Sequence[float]]) -> list[Trace]:
    look = look_of(list(found))
    return [
        {"type": "scatter", "mode": "lines", "name": escape(name), "x": sorted(values),
         "y": [100 * (i + 1) / len(values) for i in range(len(values))], "hovertemplate": "%{y:.3g} %: %{x:.3g}",
         "line": {"color": look[name].colour, "dash": look[name].dash, "width": 2, "shape": "hv"}}
        for name, values in found.items()
    ]  # fmt: skip


def _shares(title: str) -> Axis:
    return {"title": {"text": f"{title} (%)"}, "range": [0, 103]}


def _seconds_axis(title: str, values: Sequence[float]) -> Axis:
    """Seconds and their thousandths; logarithmic where values lie far apart."""
    low, high = float(min(values)), float(max(values))
    wide = low > 0 and high >= _WIDE * low
    ticks = _decades(low, high) if wide else _steps(high)
    ends = [math.log10(low) - 0.1, math.log10(high) + 0.1] if wide else [0.0, 1.05 * high]
    names = [duration(tick) for tick in ticks]
    kind = "log" if wide else "linear"
    return {"title": {"text": title}, "type": kind, "range": ends, "tickvals": ticks, "ticktext": names}


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade, or only its 1 where there are many.

    >>> _decades(0.004, 0.03)
    [0.005, 0.01, 0.02]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    digits = (1, 2, 5) if high < 200 * low else (1,)
    ticks = [float(f"{digit}e{decade}") for decade in range(first, last + 1) for digit in digits]
    return [tick for tick in ticks if 0.8 * low <= tick <= 1.25 * high]


def _steps(high: float) -> list[float]:
    """Up to seven round values from 0.

    >>> _steps(0.1)
    [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]
    """
    if high <= 0:
        return [0.0]
    decade = math.floor(math.log10(high / 6))
    step = next(float(f"{d}e{decade}") for d in (1, 2, 5, 10) if high / float(f"{d}e{decade}") <= 6)
    return [round(i * step, 12) for i in range(math.floor(high / step * (1 + 1e-9)) + 1)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
