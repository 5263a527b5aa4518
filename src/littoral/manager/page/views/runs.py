"""All runs, the newest first, with how far each is."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from urllib.parse import urlencode

from littoral.manager.page.pieces import NONE, Num, ago, badge, bar, code, empty, heading, link, percent, seconds, table
from littoral.manager.page.view import BASE, View, Visit
from littoral.manager.paging import Window
from littoral.manager.runs import ENDED, Run, RunState

_PAGE = 25


def show(visit: Visit) -> str:
    """A page of them."""
    state, job = _state(visit), visit.number("job") or None
    window = Window(limit=_PAGE, after=visit.place.get("after"))
    found = visit.manager.runs.listed(window, state, job, newest=True)
    runs = [now(visit, run) for run in found.items]
    query = urlencode({"after": found.next, **({"state": state} if state else {}), **({"job": job} if job else {})})
    more = f"<p>{link(f'/runs?{query}', 'older runs')}</p>" if found.next else ""
    top = heading(f"Runs of job {job}" if job else "Runs", "" if job else _filter(state))
    return f'{top}<div class="card">{runs_table(visit, runs)}{more}</div>'


def now(visit: Visit, run: Run) -> Run:
    """With its progress to the moment."""
    return replace(run, progress=visit.manager.launcher.progress(run))


def listed(visit: Visit, most: int) -> list[Run]:
    """The newest."""
    return [now(visit, run) for run in visit.manager.runs.listed(Window(limit=most), newest=True).items]


def runs_table(visit: Visit, runs: list[Run]) -> str:
    """Runs in a table."""
    if not runs:
        return empty("No runs yet. Submit a job here, or from a terminal:", code("littoral submit job.yaml"))
    heads = ["run", "state", "progress", Num("left"), Num("accuracy"), "began"]
    return table("Runs", heads, (_row(visit, run) for run in runs))


def state_of(run: Run) -> str:
    """As a badge."""
    return badge("stopping", "running") if run.stop_asked else badge(run.state)


def _row(visit: Visit, run: Run) -> list[str]:
    progress = run.progress
    left = seconds(progress.eta_s) if progress and run.state is RunState.RUNNING else NONE
    name = link(f"/runs/{run.number}", f"{run.number} · {run.name}")
    world = f' <span class="soft">{escape(run.world)}</span>'
    accuracy = percent(progress.accuracy if progress else None)
    return [name + world, state_of(run), _done(run), left, accuracy, ago(run.started or run.created, visit.now)]


def _done(run: Run) -> str:
    """A share while it runs; then how much it took, since a target may be reached early."""
    if run.progress is None or not run.progress.total_samples:
        return NONE
    if run.state in ENDED:
        return f"{run.progress.epochs:.1f}&nbsp;epochs"
    return bar(run.progress.share, f"run {run.number}") + percent(run.progress.share, 0)


def _state(visit: Visit) -> RunState | None:
    wanted = visit.place.get("state", "")
    return RunState(wanted) if wanted in list(RunState) else None


def _filter(state: RunState | None) -> str:
    options = "".join(
        f'<option value="{value}"{" selected" if value == (state or "") else ""}>{value or "all states"}</option>'
        for value in ("", *RunState)
    )
    return (
        '<label class="unseen" for="state">State</label>'
        f'<select id="state" data-go="{BASE}/runs?state=">{options}</select>'
    )


VIEW = View(path="/runs", title="Runs", show=show, under="runs")
