"""The rules of a model in words: when a version is promoted, what it is trained on, where and how."""

from __future__ import annotations

from html import escape
from typing import Any

from littoral.manager.model_records import Model, Training
from littoral.manager.page.pieces import facts, percent


def model_rules(model: Model) -> str:
    """When a version is promoted, and what it is trained on."""
    gate = model.gate
    margin = f" {100 * gate.margin:+.1f} points" if gate.margin else ""
    floor = "none" if gate.floor is None else percent(gate.floor)
    return facts(
        ("To be promoted", f"the served version's accuracy{margin}, or more"),
        ("judged on", f"the newest {gate.window:,} held-out samples, {gate.least_samples:,} at least"),
        ("lowest accuracy", floor),
        *_training(model.training),
    )


def _training(training: Training) -> list[tuple[str, str]]:
    job = training.job
    if not job:
        return [("Trained on", "nothing: its training has no job")]
    older = f", {percent(training.rehearsal, 0)} of all older ones" if training.rehearsal else ""
    return [
        ("Trained on", f"the newest {training.window:,} samples{older}"),
        ("where", escape(f"{job.get('continuum', '-')}, {training.options.get('world', 'processes')}")),
        ("how", escape(f"{_name(job.get('strategy'))}, planner {_name(job.get('planner'))}")),
    ]


def _name(chosen: Any) -> str:
    """Of a strategy or planner, which may have options."""
    return str((chosen.get("name") if isinstance(chosen, dict) else chosen) or "auto")
