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
    folded,
    heading,
    link,
    percent,
    seconds,
    section,
    tiles,
)
from littoral.manager.page.run_plots import accuracy, busy, links, missed
from littoral.manager.page.view import BASE, Fields, Said, View, Visit
from littoral.manager.page.views.runs import now, state_of
from littoral.manager.runs import ENDED, Progress, Run, RunState
from littoral.units import show_duration

_NEWEST = 12  # happenings that are shown at once
_TAIL = 16 * 1024  # bytes of a log


def show(visit: Visit) -> str:
    """All about it."""
    run = now(visit, visit.manager.runs.get(visit.number()))
    course = visit.courses.of(run.number)
    note = (
        f"{link(f'/runs?job={run.job}', f'job {run.job}')} · {escape(run.world)} · began {ago(run.started, visit.now)}"
    )
    top = heading(f"Run {run.number} · {run.name}", state_of(run), *_buttons(visit, run), note=note)
    plots = accuracy(visit, run, course) + busy(visit, run, course) + links(course) + missed(visit, run, course)
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


# -- words ------------------------------------------------------------------------------------------------------------


def _story(course: Course) -> str:
    if not course.happened:
        return ""
    lines = [f"<li><time>{show_duration(event['t'])}</time> {escape(told(event))}</li>" for event in course.happened]
    newest, older = lines[::-1][:_NEWEST], lines[::-1][_NEWEST:]
    rest = folded("older", f"{len(older)} earlier", _list(older)) if older else ""
    return section("What happened", _list(newest), rest)


def _list(lines: list[str]) -> str:
    return f'<ul class="story short">{"".join(lines)}</ul>'


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
