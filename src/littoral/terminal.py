"""What the command line prints: plain text tables on stdout, a progress bar on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from littoral.units import show_bytes, show_duration, show_rate

if TYPE_CHECKING:
    from littoral.continuum.continuum import Continuum
    from littoral.continuum.link import Link
    from littoral.events import Event
    from littoral.fidelity import Fidelity
    from littoral.job import Job
    from littoral.learning.task import Footprint
    from littoral.planning.plan import Plan
    from littoral.result import Tally
    from littoral.worlds.lab.check import Measured


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the first to the left, the others to the right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


# -- describe -----------------------------------------------------------------------------------------------------


def kinds() -> str:
    """The device catalogue."""
    from littoral.continuum.catalogue import catalogue

    rows = [
        [k.name, k.family, f"{k.flops / 1e9:.1f}", show_bytes(k.memory_bytes), show_rate(k.network_bytes_per_s),
         f"{k.price_usd_per_s * 3600:.3f}" if k.price_usd_per_s else "-"]
        for k in catalogue().values()
    ]  # fmt: skip
    return table(["kind", "family", "GFLOP/s sustained", "memory", "network", "USD/h"], rows)


def continuum(described: Continuum) -> str:
    """A continuum's summary."""
    rows = []
    for site in described.sites:
        inside = [device for device in described.devices if device.site == site.name]
        names: dict[str, int] = {}
        for device in inside:
            names[device.kind] = names.get(device.kind, 0) + 1
        kinds_text = ", ".join(f"{count} x {kind}" for kind, count in names.items()) or "-"
        rows.append([site.name, site.tier, str(len(inside)), kinds_text])
    links = [[link.name, _rates(link), show_duration(link.latency_s)] for link in described.links]
    parts = [f"continuum {described.name}: {len(described.devices)} devices at {len(described.sites)} sites",
             table(["site", "tier", "devices", "kinds"], rows)]  # fmt: skip
    if links:
        parts.append(table(["link", "rate", "latency"], links))
    for app in described.apps:
        parts.append(f"app {app.name}: every {show_duration(app.period_s)}, deadline {show_duration(app.deadline_s)}, "
                     f"on {', '.join(app.on)}")  # fmt: skip
    for store in described.stores:
        parts.append(f"store {store.name}: at {store.device or store.site}")
    return "\n\n".join(parts)


def _rates(link: Link) -> str:
    there, back = show_rate(link.forward.mean()), show_rate(link.backward.mean())
    return there if there == back else f"{there} / {back}"


def job(described: Job, footprint: Footprint) -> str:
    """A job's summary."""
    until = f"{described.epochs} epochs" + (f" or accuracy {described.accuracy:g}" if described.accuracy else "")
    return (
        f"{continuum(described.continuum)}\n\njob {described.name}: {described.task}, {footprint.samples} samples, "
        f"{footprint.parameters} parameters ({show_bytes(footprint.vector_bytes)}), until {until}\n"
        f"strategy {described.strategy}, planner {described.planner}, objective {described.objective}, "
        f"{len(described.faults)} faults\nno problem found in the files"
    )


# -- plan ---------------------------------------------------------------------------------------------------------


def plan(decided: Plan, *, explain: bool) -> str:
    """A plan, with every term of its prediction if asked."""
    rows = [
        [
            w.name,
            str(w.shard),
            str(w.batch),
            str(-(-w.shard // w.batch)),
            f"{w.samples_per_s:.1f}",
            w.store or "-",
        ]
        for w in decided.workers
    ]
    predicted = decided.predicted
    settings = "".join(f" {key}={value}" for key, value in decided.parameters.items())
    parts = [f"{decided.strategy}{settings}, planned by {decided.planner}, {decided.epochs} epochs",
             table(["worker", "shard", "batch", "steps/epoch", "samples/s", "data from"], rows)]  # fmt: skip
    for server in decided.servers:
        parts.append(f"{server.name} on {server.device}: elements {server.start} to {server.stop}")
    if explain:
        terms = [[t.name, show_duration(t.seconds), f"{100 * t.seconds / predicted.time_s:.1f} %", t.formula]
                 for t in predicted.terms]  # fmt: skip
        parts.append(_left_last(["term", "time", "share", "formula"], terms))
        parts.append("\n".join(f"- {reason}" for reason in decided.reasons))
    if decided.alternatives:
        parts.append(alternatives(decided))
    parts.append(f"predicted: {prediction(decided)}")
    return "\n\n".join(parts)


def front(plans: Sequence[tuple[Plan, float]]) -> str:
    """The table of 'littoral plan --pareto': plans and their fairness."""
    body = [
        [str(number), show_duration(plan.predicted.time_s), f"{plan.predicted.cost_usd:.4g}", f"{fair:.3f}",
         str(len(plan.workers)), ", ".join(server.device for server in plan.servers)]
        for number, (plan, fair) in enumerate(plans, start=1)
    ]  # fmt: skip
    note = "fairness: Jain's index of burdens, devices without work counted; take a plan with --pick and its number"
    return f"{table(['plan', 'time', 'USD', 'fairness', 'workers', 'servers'], body)}\n\n{note}"


def alternatives(decided: Plan) -> str:
    """The strategies that were considered, the best first."""
    rows = []
    for other in decided.alternatives:
        name = " ".join([other.strategy, *(f"{key}={value}" for key, value in other.parameters.items())])
        if other.time_s is None:
            rows.append([name, "-", "-", "-", "-", "-", f"refused: {other.refused}"])
        else:
            weighed = show_duration(other.time_s / other.efficiency)
            rows.append([name, show_duration(other.time_s), f"{other.efficiency:g}", weighed,
                         show_bytes(other.wan_bytes), f"{other.cost_usd:.4g}", other.planner])  # fmt: skip
    head = ["strategy", "time", "worth of a sample", "weighed", "between sites", "USD", "planner"]
    return _left_last(head, rows)


def prediction(decided: Plan) -> str:
    """What a plan should take, in a line."""
    predicted = decided.predicted
    return (
        f"{show_duration(predicted.time_s)} in all, {show_duration(predicted.epoch_s)} per epoch, "
        f"{show_bytes(predicted.bytes_sent)} sent ({show_bytes(predicted.wan_bytes)} between sites), "
        f"{predicted.cost_usd:.4g} USD"
    )


def _left_last(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose last column is prose."""
    first = table(head[:-1], [row[:-1] for row in rows]).splitlines()
    last = [head[-1], "-" * len(head[-1]), *(row[-1] for row in rows)]
    return "\n".join(f"{line.ljust(len(first[0]))}  {text}" for line, text in zip(first, last, strict=True))


# -- results ------------------------------------------------------------------------------------------------------


def result(outcome: Mapping[str, Any], folder: Path) -> str:
    """One run's result."""
    workers = [
        [name, str(w["shard"]), str(w["batch"]), str(w["samples"]), show_duration(w["busy_s"]),
         show_duration(w["wait_s"]), show_bytes(w["bytes_sent"])]
        for name, w in outcome["workers"].items()
    ]  # fmt: skip
    named = {"target": "target reached", "plateau": "no more to gain", "epochs": "all epochs done"}
    ended = named.get(outcome["reason"], outcome["reason"])
    lines = [
        f"{outcome['run']}: {ended} after {show_duration(outcome['time_s'])}{_virtual(outcome['world'])}, "
        f"predicted {show_duration(outcome['predicted']['time_s'])} for all epochs",
        f"accuracy {_number(outcome['accuracy'])}, {outcome['epochs']:.2f} epochs, "
        f"throughput efficiency {_number(outcome['throughput_efficiency'])}, "
        f"goodput efficiency {_number(outcome['goodput_efficiency'])}",
        f"{show_bytes(outcome['bytes_sent'])} sent, {show_bytes(outcome['wan_bytes'])} between sites, "
        f"{outcome['cost_usd']:.4g} USD, {outcome['slo']['violated']} of {outcome['slo']['checked']} deadlines missed",
        "",
        table(["worker", "shard", "batch", "samples", "busy", "waiting", "sent"], workers),
        "",
        f"kept in {folder}; see it with: littoral report {folder}",
    ]
    return "\n".join(lines)


def _virtual(world: str) -> str:
    return " virtual" if world == "simulated" else ""


def lab(rows: Sequence[Measured]) -> str:
    """The table of 'littoral lab check'."""
    body = [
        [row.what, row.where, f"{row.asked:.4g} {row.unit}", f"{row.achieved:.4g} {row.unit}",
         f"{100 * row.error:+.1f} %", "ok" if row.within else "OFF"]
        for row in rows
    ]  # fmt: skip
    return table(["what", "where", "asked", "achieved", "error", ""], body)


def fidelity(found: Sequence[Fidelity]) -> str:
    """The table of 'littoral fidelity'."""
    body = [
        [each.strategy, show_duration(each.predicted.epoch_s), show_duration(each.measured.epoch_s),
         f"{100 * each.epoch_error:+.1f} %", show_bytes(each.predicted.epoch_bytes),
         show_bytes(each.measured.epoch_bytes), f"{100 * each.bytes_error:+.1f} %",
         f"{each.wait_error:.3f}", f"{each.curve_distance:.4f}"]
        for each in found
    ]  # fmt: skip
    head = ["strategy", "epoch foretold", "measured", "error", "bytes per epoch", "measured", "error", "wait", "curve"]
    waits = [
        [each.strategy, name, f"{each.predicted.waits[name]:.3f}", f"{each.measured.waits[name]:.3f}"]
        for each in found
        for name in each.predicted.waits
    ]
    return (
        f"{table(head, body)}\n\n{table(['strategy', 'worker', 'waits, foretold', 'measured'], waits)}\n\n"
        "wait: mean difference of the workers' waiting shares; curve: mean difference of accuracy after equal samples"
    )


def comparison(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of 'littoral compare'; ratios are to the slowest row."""
    head = ["strategy", "planner", "lr", "to target", "spread", "speed-up", "per epoch", "accuracy", "goodput", "sent",
            "to others", "USD", "missed", "failed", "prediction"]  # fmt: skip
    body = [
        [r["strategy"], r["planner"], f"{r['lr']:.3g}", _duration(r["time_to_target_s"]),
         _duration(r["time_to_target_spread_s"]), "-" if r["speed_up"] is None else f"{r['speed_up']:.2f}x",
         _duration(r["epoch_s"]),
         _number(r["accuracy"]), _number(r["goodput_efficiency"]), show_bytes(r["bytes_sent"]),
         show_bytes(r["wan_bytes"]), f"{r['cost_usd']:.3g}", str(r["violated"]), str(r["failed"]),
         "-" if r["prediction_error"] is None else f"{100 * r['prediction_error']:+.1f} %"]
        for r in rows
    ]  # fmt: skip
    seeds = rows[0]["seeds"] if rows else 0
    note = (
        f"means over {seeds} seeds; spread: largest minus smallest; speed-up: against the slowest row;\n"
        "to others: to other sites; goodput 1.0: all compute pooled, communication free;\n"
        "prediction: the planner's error on whole epochs"
    )
    return f"{table(head, body)}\n\n{note}"


def _duration(value: float | None) -> str:
    return "-" if value is None else show_duration(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


class Progress:
    """A bar of samples used, with the last accuracy; silent when stderr is not a terminal."""

    def __init__(self, described: Job, decided: Plan) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"),
                   TextColumn("{task.fields[note]}"), TimeElapsedColumn())  # fmt: skip
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal, transient=True)
        total = decided.samples * decided.epochs
        self._task = self._bar.add_task(described.name, total=total, note="")
        self._next = 0.0
        self._step = total / 200

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Event, tally: Tally) -> None:
        """Follow a run."""
        if tally.samples >= self._next:
            self._next = tally.samples + self._step
            seen = "" if tally.accuracy is None else f", accuracy {tally.accuracy:.3f}"
            self._bar.update(
                self._task, completed=tally.samples, note=f"{show_duration(event.t)}{_virtual(tally.world)}{seen}"
            )
