"""Runs as the command line shows them."""

from __future__ import annotations

from collections.abc import Sequence

from littoral.manager.runs import Run
from littoral.terminal import table
from littoral.units import show_duration


def run_line(run: Run) -> str:
    """One run in a line."""
    parts = [f"run {run.number} ({run.name}, {run.world}): {'stopping' if run.stop_asked else run.state}"]
    if run.reason:
        parts.append(run.reason)
    if run.progress is not None and run.progress.total_samples:
        parts.append(f"{100 * run.progress.share:.1f} %")
        if run.progress.accuracy is not None:
            parts.append(f"accuracy {run.progress.accuracy:.3f}")
        if run.progress.eta_s is not None and not run.ended:
            parts.append(f"{show_duration(run.progress.eta_s)} left")
    return ", ".join(parts)


def runs_table(runs: Sequence[Run]) -> str:
    """Many runs as a table."""
    rows = [
        [str(run.number), run.name, run.world, run.state, _share(run), _accuracy(run), str(run.attempts), run.reason]
        for run in runs
    ]
    return table(["run", "job", "world", "state", "done", "accuracy", "attempts", "reason"], rows)


def _share(run: Run) -> str:
    return "-" if run.progress is None else f"{100 * run.progress.share:.0f} %"


def _accuracy(run: Run) -> str:
    return "-" if run.progress is None or run.progress.accuracy is None else f"{run.progress.accuracy:.3f}"
