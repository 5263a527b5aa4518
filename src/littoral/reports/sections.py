"""What the page says about one run: continuum, plan, timeline, network, apps, faults, how to repeat it.

A section is a function of a run's story and its row of results that gives HTML, or nothing without data.
"""

from __future__ import annotations

import json
from html import escape

from littoral.planning.plan import Term
from littoral.reports import figures
from littoral.reports.gantt import gantt_figure
from littoral.reports.graph import draw, glyph
from littoral.reports.markup import (
    Cell,
    code,
    duration,
    folded,
    number,
    paragraph,
    percent,
    plot,
    seconds,
    size,
    table,
)
from littoral.reports.outline import outline_of
from littoral.reports.story import Story
from littoral.reports.tables import Row
from littoral.reports.timeline import timeline_of
from littoral.reports.usage import BINS, pipe_uses

MOST_HAPPENINGS = 80
MOST_APPS = 40
MOST_WORKERS = 60


def continuum(story: Story, row: Row) -> str:
    """The continuum with the plan's roles on it."""
    signs = "".join(
        f'<li><svg class="graph key" viewBox="-9 -9 18 18" aria-hidden="true">{glyph(role, 0, 0)}</svg>{role}</li>'
        for role in ("worker", "server", "store", "idle")
    )
    text = "Wider lines are faster links, by factors of ten; dashed ones vary with time; latency is one way."
    drawing = draw(outline_of(story.continuum, story.plan))
    return (
        f'<h3>Where it runs</h3><div class="scroll" tabindex="0" role="region" aria-label="The continuum">'
        f'{drawing}</div><ul class="signs">{signs}</ul>{paragraph(text)}'
    )


# -- plan against achieved -------------------------------------------------------------------------------


def plan(story: Story, row: Row) -> str:
    """The predicted time, term by term, beside the measured one, and what each worker did."""
    terms = story.plan.predicted.terms
    whole = sum(term.seconds for term in terms)
    parts = ["<h3>Plan and outcome</h3>", paragraph(_prediction(story, row))]
    if whole > 0:
        parts += [_bars(terms, whole, row), _terms(terms, whole, story)]
    if story.plan.reasons:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in story.plan.reasons)
        parts.append(f'<ul class="reasons">{reasons}</ul>')
    parts.append(_workers(story))
    return "".join(parts)


def _prediction(story: Story, row: Row) -> str:
    took, error = row.predicted_took_s, row.prediction_error
    outcome = "" if took is None or error is None else f", {_than(error)} they took ({duration(took)})"
    epochs = "1 whole epoch" if row.predicted_epochs == 1 else f"{row.predicted_epochs} whole epochs"
    return (
        f"For {epochs} the plan foretells {duration(row.predicted_s)}{outcome}. "
        "Faults and lost nodes are not part of a plan."
    )


def _than(error: float) -> str:
    return f"{100 * abs(error):.1f} % {'more' if error > 0 else 'less'} than"


def _bars(terms: tuple[Term, ...], whole: float, row: Row) -> str:
    took = row.predicted_took_s or 0.0
    scale = 100.0 / max(row.predicted_s, took)
    pieces = "".join(
        f'<span class="piece piece{i % 4}" title="{escape(term.name)}" '
        f'style="width:{scale * row.predicted_s * term.seconds / whole:.2f}%"></span>'
        for i, term in enumerate(terms)
    )
    return (
        '<div class="bars" role="img" aria-label="Predicted and measured time">'
        f"<span>predicted</span><div>{pieces}</div><b>{duration(row.predicted_s)}</b>"
        f"<span>measured</span>"
        f'<div><span class="piece measured" style="width:{scale * took:.2f}%"></span></div>'
        f"<b>{duration(took) if took else 'no epoch finished'}</b></div>"
    )


def _terms(terms: tuple[Term, ...], whole: float, story: Story) -> str:
    heads = (
        ("term", "a part of the predicted time"), ("time", "for all planned epochs"),
        ("share", "of the whole"), ("from", "how it was computed"),
    )  # fmt: skip
    rows = [
        [
            Cell(term.name, mark=f"key key{i % 4}"),
            seconds(term.seconds),
            percent(term.seconds / whole),
            Cell(term.formula),
        ]
        for i, term in enumerate(terms)
    ]
    return table(heads, rows, f"Predicted for all {story.plan.epochs} epochs: {duration(story.plan.predicted.time_s)}")


def _workers(story: Story) -> str:
    heads = (
        ("worker", "node"), ("device", "where it runs"), ("shard", "samples of an epoch that are its own"),
        ("batch", "samples of a step"), ("used", "samples whose gradient became part of the model"),
        ("computing", "time spent on gradients"), ("busy", "share of the run spent on gradients"),
        ("not computing", "the rest of the run's time"),
        ("sending", "sum over its messages, which may overlap"), ("sent", "bytes of its messages"),
    )  # fmt: skip
    found = story.result.get("workers") or {}
    device_of = story.plan.device_of
    shown = list(found.items())[:MOST_WORKERS]
    rows = [
        [
            Cell(name), Cell(device_of.get(name, "")), number(worker["shard"], ","),
            number(worker["batch"], ","), number(worker["samples"], ","), seconds(worker["busy_s"]),
            _busy(worker["busy_s"], story.seconds),
            seconds(worker["wait_s"]), seconds(worker["send_s"]), size(worker["bytes_sent"]),
        ]
        for name, worker in shown
    ]  # fmt: skip
    if not rows:
        return ""
    rest = f"The first {MOST_WORKERS} of {len(found)} workers are listed." if len(found) > MOST_WORKERS else ""
    return table(heads, rows, "Workers") + paragraph(rest)


def _busy(busy_s: float, seconds_in_all: float) -> Cell:
    share = busy_s / seconds_in_all if seconds_in_all else 0.0
    return Cell(f"{100 * share:.1f} %", share, bar=min(1.0, share))


# -- timeline and network --------------------------------------------------------------------------------


def timeline(story: Story, row: Row) -> str:
    """Who did what when."""
    chart = timeline_of(story)
    if chart is None:
        return ""
    text = (
        "A tall bar is computing, the strip above it fetching data, the one below sending, a thin line "
        "waiting; hatched times are those in which a node was gone. Drag to zoom, double-click to see all."
    )
    notes = "".join(paragraph(note) for note in chart.notes)
    label = f"Timeline of {len(chart.rows) - 1} nodes over {duration(story.seconds)}"
    return f"<h3>Timeline</h3>{paragraph(text)}{plot(gantt_figure(chart), label)}{notes}"


def network(story: Story, row: Row) -> str:
    """How busy the links were."""
    uses, quiet = pipe_uses(story)
    if not uses:
        return ""
    text = f"Share of capacity in use, in {BINS} slices of {duration(story.seconds / BINS)}, busiest first. "
    text += "A full strip is a full link; capacity is as described, so a link that a fault cuts shows as idle."
    text += f" Not drawn: {quiet} more that carried little." if quiet else ""
    figure = plot(figures.usage_figure(uses), "Use of links over time")
    return f"<h3>Use of the network</h3>{paragraph(text)}{figure}"


# -- apps and happenings ---------------------------------------------------------------------------------


def apps(story: Story, row: Row) -> str:
    """How background apps fared beside training, worst first."""
    if not story.apps:
        return ""
    heads = (
        ("app", ""), ("device", ""), ("deadline", "time it is allowed"), ("checked", "periods"),
        ("missed", "periods that were late or dropped"), ("missed share", ""), ("mean latency", ""),
        ("worst latency", ""),
    )  # fmt: skip
    deadlines = {app.name: app.deadline_s for app in story.continuum.apps}
    found = sorted(story.apps, key=lambda app: (-app.violated, -app.worst_s))
    rows = [
        [
            Cell(app.app), Cell(app.node), seconds(deadlines.get(app.app)), number(app.checked, ","),
            Cell(f"{app.violated:,}", app.violated, mark="bad" if app.violated else ""),
            percent(app.violated / app.checked if app.checked else 0.0),
            seconds(app.mean_s), seconds(app.worst_s),
        ]
        for app in found[:MOST_APPS]
    ]  # fmt: skip
    rest = f"The worst {MOST_APPS} of {len(found)} are listed." if len(found) > MOST_APPS else ""
    return "<h3>Background apps</h3>" + table(heads, rows, "Deadlines of background apps") + paragraph(rest)


def happenings(story: Story, row: Row) -> str:
    """Faults, losses, returns and the like, in order."""
    if not any(happening.mark != "finished" for happening in story.happenings):
        return ""
    shown = story.happenings[:MOST_HAPPENINGS]
    items = "".join(
        f'<li class="{happening.mark}"><time>{duration(happening.t)}</time><span>{escape(happening.text)}</span></li>'
        for happening in shown
    )
    rest = len(story.happenings) - len(shown)
    more = paragraph(f"And {rest} more, in the journal.") if rest else ""
    return f'<h3>What happened</h3><ol class="happenings">{items}</ol>{more}'


# -- reproduce -------------------------------------------------------------------------------------------


def reproduce(story: Story, row: Row) -> str:
    """All that is needed to have this run again."""
    command = f"littoral run job.yaml --seed {story.seed}" + (" --timing-only" if story.timing_only else "")
    versions = ", ".join(f"{name} {version}" for name, version in story.versions.items())
    text = "With the two files below in one folder; the same seed gives the same journal."
    return (
        f"<h3>Reproduce</h3>{code(command)}{paragraph(text)}"
        + folded("job.yaml", code(story.job_yaml))
        + folded("continuum.yaml", code(story.continuum_yaml))
        + folded("result.json", code(json.dumps(story.result, indent=2)))
        + paragraph(f"Versions: {versions}" if versions else "")
    )
