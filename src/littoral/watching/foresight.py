"""What the accuracy monitor foretold in a run, and how far off it was: an estimator that is checked can be trusted."""

from __future__ import annotations

import statistics
from typing import Any

from littoral.watching.accuracy import AccuracyMonitor, Forecast


def account(monitor: AccuracyMonitor, reason: str) -> dict[str, Any]:
    """Every forecast of a run that ended for ``reason``; errors are relative, and None where the end is not known.

    It is known when the goal was reached or every epoch was used, not when something else ended the run.
    """
    goal = "plateau" if monitor.target is None else "target"
    ended = monitor.epochs[-1] if monitor.epochs and reason in (goal, "epochs") else None
    told = zip(monitor.epochs, monitor.forecasts, strict=True)
    made = [_line(after, forecast, ended) for after, forecast in told if forecast is not None]
    known = [one for one in made if one["error"] is not None]
    return {
        "goal": goal,
        "ended": ended,
        "made": made,
        "error": statistics.mean(abs(one["error"]) for one in known) if known else None,
        "inside": statistics.mean(float(one["inside"]) for one in known) if known else None,
    }


def _line(after: float, forecast: Forecast, ended: float | None) -> dict[str, Any]:
    return {
        "after": after,
        "epochs": forecast.epochs,
        "low": forecast.low,
        "high": forecast.high,
        "error": None if ended is None else forecast.epochs / ended - 1,
        "inside": None if ended is None else forecast.low <= ended <= forecast.high,
    }
