"""One run: accuracy, who was busy, links and missed deadlines as they happen; stop, resume, log and report."""

from __future__ import annotations

from html import escape
from typing import Any

from littoral.manager.launcher import LOG
from littoral.manager.page.course import Course
from littoral.manager.page.pieces import (
    NONE,
    ago,
    bar,
    button,
    code,
    empty,
    folded,
    heading,
    link,
    percent,
    seconds,
    section,
    tiles,
)
from littoral.manager.page.plots import Axis, Line, Rule, legend, plot, time_span
from littoral.manager.page.strips import gantt, misses
from littoral.manager.page.view import BASE, Fields, Said, View, Visit
from littoral.manager.page.views.runs import now, state_of
from littoral.manager.runs import ENDED, Progress, Run, RunState
from littoral.units import show_duration, show_rate

_LINKS = 6  # that are drawn: those that carried most
_TAIL = 16 * 1024  # bytes of a log


def show(visit: Visit) -> str:
    """All about it."""
    run = now(visit, visit.manager.runs.get(visit.number()))
    course = visit.courses.of(run.number)
    note = (
        f"{link(f'/runs?job={run.job}', f'job {run.job}')} · {escape(run.world)} · began {ago(run.started, visit.now)}"
    )
    top = heading(f"Run {run.number} · {run.name}", state_of(run), *_buttons(visit, run), note=note)
    plots = "".join(
        (_accuracy(visit, run, course), _busy(visit, run, course), _links(course), _missed(visit, run, course))
    )
    return f'{top}{_figures(run)}<div class="pair">{plots}</div>{_story(course)}{_log(visit, run)}'


def _buttons(visit: Visit, run: Run) -> list[str]:
    found = []
    if visit.may_write and run.state not in ENDED and not run.stop_asked:
        found.append(button("Stop", "stop", ask=f"Stop run {run.number}? It can be resumed from its checkpoint."))
    if visit.may_write and run.state in (RunState.STOPPED, RunState.FAILED):
        found.append(button("Resume", "resume", kind="main"))
    if run.state in ENDED and run.started:
        found.append(f'<a class="button" href="{BASE}/runs/{run.number}/report" target="_blank">Report</a>')
    return found


def _figures(run: Run) -> str:
    progress = run.progress
    if progress is None:
        waits = "It waits for its turn." if run.state is RunState.QUEUED else run.reason or "Nothing is known yet."
        return f'<p class="note">{escape(waits)}</p>'
    predicted = f"{show_duration(progress.predicted_s)} planned for all" if progress.predicted_s else ""
    most = round(progress.epochs / progress.share) if progress.share else 0
    return _standing(run, progress.share) + tiles(
        ("Epochs", f"{progress.epochs:.1f}", f"of at most {most}" if most else ""),
        _left(run, progress),
        ("Accuracy", percent(progress.accuracy), "on data it has not seen"),
        ("Time", seconds(progress.time_s), predicted),
        ("Speed", _speed(progress), "samples/s"),
        ("Deadlines missed", str(progress.missed), "of apps beside it"),
    )  # fmt: skip


def _standing(run: Run, share: float) -> str:
    if run.state not in ENDED:
        return bar(share, "progress")
    return f'<p class="note">Ended: {escape(run.reason)}.</p>' if run.reason else ""


def _left(run: Run, progress: Progress) -> tuple[str, str, str]:
    if run.ended is None or run.started is None:
        return "Left", seconds(progress.eta_s), "at the present speed"
    return "Took", seconds(run.ended - run.started), "by our clock"


def _speed(progress: Progress) -> str:
    return NONE if progress.samples_per_s is None else f"{progress.samples_per_s:,.0f}"


# -- plots ------------------------------------------------------------------------------------------------------------


def _accuracy(visit: Visit, run: Run, course: Course) -> str:
    if not course.accuracy:
        return section("Accuracy", empty("No evaluation yet."))
    target = visit.manager.jobs.get(run.job).document.get("target", {})
    goal = target.get("accuracy") if isinstance(target, dict) else None
    rules = [Rule(y=float(goal), name="target")] if isinstance(goal, int | float) else []
    low = min(accuracy for _, accuracy in course.accuracy)
    y = Axis(low=0.0 if low < 0.5 else 0.5, high=1.0, show=lambda value: f"{100 * value:.0f} %")
    t, last = course.accuracy[-1]
    label = f"Accuracy against time: {100 * last:.1f} % after {show_duration(t)}"
    line = Line(name="accuracy", points=course.accuracy, dots=True)
    return section("Accuracy", plot(label, time_span(course.now), y, [line], rules), id="accuracy")


def _busy(visit: Visit, run: Run, course: Course) -> str:
    if not course.busy.amounts:
        return section("Who was busy", empty("Nobody has computed yet."))
    follower = visit.manager.launcher.following(run.number)
    devices = follower.devices if follower else {}
    label = f"Gantt chart of {len(course.busy.amounts)} nodes over {show_duration(course.now)}"
    chart = gantt(label, time_span(course.now), course.busy, devices)
    return section("Who was busy", chart, '<p class="note">The darker, the larger the share of time.</p>', id="gantt")


def _links(course: Course) -> str:
    names = [name for name in course.sent.totals() if not name.startswith(">")][:_LINKS]
    if not names:
        return section("Link rates", empty("Nothing was sent yet."))
    width = course.sent.width
    bins = int(course.now / width) or 1
    rates = {name: [8 * amount / width for amount in course.sent.amounts[name][:bins]] for name in names}
    top = max(max(row) for row in rates.values()) or 1.0
    y = Axis(low=0.0, high=top, show=lambda value: show_rate(value / 8) if value else "0")
    lines = [
        Line(name=_arrow(name), points=[(i * width, rate) for i, rate in enumerate(row)], look=look, stairs=True)
        for look, (name, row) in enumerate(rates.items())
    ]
    label = f"Rates of {len(names)} links over time, at most {show_rate(top / 8)}"
    rest = len(course.sent.amounts) - len(names)
    note = f'<p class="note">The {len(names)} that carried most, of {len(names) + rest}.</p>' if rest else ""
    figure = plot(label, time_span(course.now), y, lines)
    return section("Link rates", figure, legend([(line.name, line.look) for line in lines]), note, id="links")


def _arrow(name: str) -> str:
    return name.replace(">", " → ")


def _missed(visit: Visit, run: Run, course: Course) -> str:
    apps = visit.manager.jobs.order(run.job)[0].continuum.get("apps") or []
    names = [str(app["name"]) for app in apps]
    if not names:
        return section("Deadlines", empty("No apps run beside this job."))
    total = sum(course.missed.totals().values())
    figure = misses(f"{total:.0f} missed deadlines over time", time_span(course.now), course.missed, names)
    return section("Deadlines missed", figure, f'<p class="note">{total:.0f} in all.</p>', id="missed")


# -- words ------------------------------------------------------------------------------------------------------------


def _story(course: Course) -> str:
    if not course.happened:
        return ""
    lines = "".join(
        f"<li><time>{show_duration(event['t'])}</time> {escape(told(event))}</li>"
        for event in list(course.happened)[-40:][::-1]
    )
    return section("What happened", f'<ul class="story short">{lines}</ul>')


def told(event: dict[str, Any]) -> str:
    """An event of a run in words."""
    match event["event"]:
        case "EpochFinished":
            return f"epoch {event['epoch'] + 1} is done"
        case "NodeLost":
            return f"{event['node']} was found lost: {event['reason']}"
        case "NodeReturned":
            return f"{event['node']} came back"
        case "FaultInjected":
            return f"fault: {event['kind']} of {event['target']}"
        case "OutOfMemory":
            return f"{event['node']} ran out of memory at a batch of {event['batch']}"
        case "Resumed":
            return f"went on from the checkpoint of {show_duration(event['since'])}"
    return f"the run ended: {event.get('reason', '')}"


def _log(visit: Visit, run: Run) -> str:
    path = visit.manager.launcher.folder(run.number) / LOG
    text = path.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip() if path.exists() else ""
    return folded("log", "What its process printed", code(text)) if text else ""


# -- acts -------------------------------------------------------------------------------------------------------------


def stop(visit: Visit, fields: Fields) -> Said:
    """Once a checkpoint is written."""
    manager = visit.manager
    with manager.database.write() as connection:
        run = manager.runs.ask_stop(connection, visit.number())
        for hook in manager.launcher.ended if run.state in ENDED else ():
            hook(connection, run)
    manager.launcher.wake()
    return Said(f"Run {run.number} stops once it has written a checkpoint.")


def resume(visit: Visit, fields: Fields) -> Said:
    """From the checkpoint."""
    with visit.manager.database.write() as connection:
        run = visit.manager.runs.resume(connection, visit.number())
    visit.manager.launcher.wake()
    return Said(f"Run {run.number} waits for its turn.")


VIEW = View(path="/runs/{number}", title="Run", show=show, acts={"stop": stop, "resume": resume}, under="runs")
