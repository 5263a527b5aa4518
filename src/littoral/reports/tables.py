"""What runs achieved, as rows: one per run, one per variant (same job, world, strategy, parameters and planner).

A run that stops at its target does fewer epochs than planned: its prediction is judged on the epochs it finished.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from littoral.reports.story import Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run; None is 'not known' or 'not reached'."""

    label: str
    variant: str
    folder: str
    seed: int
    reason: str
    target: float | None
    time_to_target_s: float | None
    time_s: float
    accuracy: float | None
    epochs: float
    throughput_efficiency: float | None
    goodput_efficiency: float | None
    bytes_sent: float
    wan_bytes: float
    cost_usd: float
    checked: int
    violated: int
    predicted_s: float
    predicted_epochs: int
    predicted_took_s: float | None  # what those epochs took; None: not one was finished

    @property
    def prediction_error(self) -> float | None:
        """How much longer (or, negative, shorter) the prediction was than the truth, as a share of it."""
        return self.predicted_s / self.predicted_took_s - 1.0 if self.predicted_took_s else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation of ``count`` values."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The runs of one variant."""

    variant: str
    seeds: tuple[int, ...]
    reached: int
    time_to_target_s: Spread | None
    time_s: Spread | None
    accuracy: Spread | None
    goodput_efficiency: Spread | None
    cost_usd: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Variants from fastest to slowest by mean time, and whether that is the time to the target."""

    to_target: bool
    order: tuple[tuple[str, float], ...]
    unreached: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """How many times longer the slowest took."""
        return self.order[-1][1] / self.order[0][1] if self.order and self.order[0][1] else 1.0


def variant_of(story: Story, job: str = "") -> str:
    """What distinguishes a run from others but for its seed: 'parameter_server mode=asp, proportional'."""
    plan = story.plan
    settings = "".join(f" {key}={_short(value)}" for key, value in plan.parameters.items())
    timing = " (timing only)" if story.timing_only else ""
    return f"{job}{': ' if job else ''}{plan.strategy}{settings}, {plan.planner}{timing}"


def jobs_of(stories: Sequence[Story]) -> list[str]:
    """Each run's job by name, '' when all have the same; jobs that share a name are numbered."""
    known: dict[str, str] = {}
    names: list[str] = []
    for story in stories:
        rest = {k: v for k, v in story.job.items() if k not in ("strategy", "planner", "seed")}
        key = json.dumps([rest, story.continuum_yaml], sort_keys=True, default=str)
        if key not in known:
            name = str(story.job.get("name", "job"))
            same = sum(other.split(" #")[0] == name for other in known.values())
            known[key] = f"{name} #{same + 1}" if same else name
        names.append(known[key])
    return names if len(known) > 1 else [""] * len(names)


def world_of(story: Story) -> str:
    """Where a run was."""
    return str(story.result.get("world", "simulated"))


def worlds_of(stories: Sequence[Story]) -> list[str]:
    """Where some runs were, each world once."""
    return list(dict.fromkeys(map(world_of, stories)))


def rows_of(stories: Sequence[Story]) -> list[Row]:
    """One row per run; labels are unique."""
    worlds = worlds_of(stories)
    variants = [
        variant_of(story, job) + (f" ({world_of(story)})" if len(worlds) > 1 else "")
        for story, job in zip(stories, jobs_of(stories), strict=True)
    ]
    labels = [f"{v}, seed {s.seed}" for v, s in zip(variants, stories, strict=True)]
    unique = [
        label if labels.count(label) == 1 else f"{label} [{story.folder}]"
        for label, story in zip(labels, stories, strict=True)
    ]
    return [_row(*each) for each in zip(stories, variants, unique, strict=True)]


def _row(story: Story, variant: str, label: str) -> Row:
    result, slo = story.result, story.result.get("slo") or {}
    epochs, time_s = float(result.get("epochs") or 0.0), float(result.get("time_s") or 0.0)
    finished = (result.get("predicted") or {}).get("finished") or {}
    return Row(
        label=label,
        variant=variant,
        folder=story.folder,
        seed=story.seed,
        reason=str(result.get("reason", "")),
        target=result.get("target_accuracy"),
        time_to_target_s=result.get("time_to_target_s"),
        time_s=time_s,
        accuracy=result.get("accuracy"),
        epochs=epochs,
        throughput_efficiency=result.get("throughput_efficiency"),
        goodput_efficiency=result.get("goodput_efficiency"),
        bytes_sent=result.get("bytes_sent") or 0.0,
        wan_bytes=result.get("wan_bytes") or 0.0,
        cost_usd=result.get("cost_usd") or 0.0,
        checked=slo.get("checked", 0),
        violated=slo.get("violated", 0),
        predicted_s=finished.get("predicted_s", story.plan.predicted.time_s),
        predicted_epochs=finished.get("epochs", story.plan.epochs),
        predicted_took_s=finished.get("measured_s"),
    )


def summaries_of(rows: Sequence[Row]) -> list[Summary]:
    """One summary per variant, in the order of first appearance."""
    return [
        _summary(variant, [row for row in rows if row.variant == variant])
        for variant in dict.fromkeys(row.variant for row in rows)
    ]


def _summary(variant: str, rows: list[Row]) -> Summary:
    return Summary(
        variant=variant,
        seeds=tuple(row.seed for row in rows),
        reached=sum(row.time_to_target_s is not None for row in rows),
        time_to_target_s=spread([row.time_to_target_s for row in rows]),
        time_s=spread([row.time_s for row in rows]),
        accuracy=spread([row.accuracy for row in rows]),
        goodput_efficiency=spread([row.goodput_efficiency for row in rows]),
        cost_usd=spread([row.cost_usd for row in rows]),
    )


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean and spread of what is known; None when nothing is.

    >>> spread([1.0, 3.0, None])
    Spread(mean=2.0, deviation=1.4142135623730951, count=2)
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


def ranking_of(rows: Sequence[Row]) -> Ranking:
    """Who was fastest: to the target if anybody got there, else to the end of the run.

    A variant counts as having reached the target only when all of its runs did: a mean over the lucky ones
    flatters.
    """
    summaries = summaries_of(rows)
    to_target = any(summary.reached for summary in summaries)
    times = {s.variant: s.time_to_target_s if to_target else s.time_s for s in summaries}
    complete = [s.variant for s in summaries if not to_target or s.reached == len(s.seeds)]
    order = sorted(((v, times[v].mean) for v in complete if times[v]), key=lambda pair: pair[1])  # type: ignore[union-attr]
    ranked = {variant for variant, _ in order}
    unreached = tuple(s.variant for s in summaries if s.variant not in ranked)
    return Ranking(to_target=to_target, order=tuple(order), unreached=unreached)


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
