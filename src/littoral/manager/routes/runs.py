"""``/runs``: what is being trained and what was: progress, journal, log, result and report; stop and resume."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse

from littoral.errors import InputError
from littoral.manager.feed import FILE, begins_line, rows, tail
from littoral.manager.launcher import LOG
from littoral.manager.manager import Manager
from littoral.manager.paging import AGAIN, Page
from littoral.manager.problems import told_as
from littoral.manager.refusals import Unknown
from littoral.manager.reporting import report
from littoral.manager.requests import Number, Operator, Viewer, Wanted, resource
from littoral.manager.routes.events import BEAT_S
from littoral.manager.runs import ENDED, Run, RunState

_LOOK_S = 0.25
_TAIL = 64 * 1024  # bytes of a log
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The run, as it goes on"}
}
_NOT_YET = told_as(409, "There is none yet")
State = Annotated[RunState | None, Query(description="Only in this state.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out of a run; ``result`` is what 'littoral run --json' prints."""

    run: int
    result: dict[str, Any]


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("runs", "/runs")

    @routes.get("")
    def list_runs(
        window: Wanted, by: Viewer, state: State = None, job: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
        newest: Annotated[bool, Query(description="The newest first.")] = False,
    ) -> Page[Run]:  # fmt: skip
        """Runs, the oldest first."""
        found = manager.runs.listed(window, state, job, newest=newest)
        return replace(found, items=[_now(manager, run) for run in found.items])

    @routes.get("/{number}")
    def get_run(number: Number, by: Viewer) -> Run:
        """One run and how far it is."""
        return _now(manager, manager.runs.get(number))

    @routes.get("/{number}/result", responses=_NOT_YET)
    def get_result(number: Number, by: Viewer) -> Result:
        """What came out; 409 until the run is finished."""
        return Result(run=number, result=manager.runs.result(number))

    @routes.get("/{number}/journal")
    def get_journal(number: Number, window: Wanted, by: Viewer) -> Page[dict[str, Any]]:
        """The run's journal, line by line."""
        return _lines(manager, number, "journal.jsonl", window.after_number, window.limit)

    @routes.get("/{number}/feed")
    def get_feed(number: Number, window: Wanted, by: Viewer) -> Page[dict[str, Any]]:
        """What a watcher wants of the journal, at once: events that matter, speed, links and deadlines."""
        return _lines(manager, number, FILE, window.after_number, window.limit)

    @routes.get("/{number}/log", response_class=PlainTextResponse)
    def get_log(number: Number, by: Viewer) -> PlainTextResponse:
        """The end of what the run's process printed."""
        return PlainTextResponse(_end(_folder(manager, manager.runs.get(number)) / LOG).decode("utf-8", "replace"))

    @routes.get("/{number}/report", response_class=HTMLResponse, responses=_NOT_YET)
    def get_report(number: Number, by: Viewer) -> HTMLResponse:
        """One self-contained page about the run."""
        run = manager.runs.get(number)
        page = report(_folder(manager, run), ended=run.state in ENDED)
        return HTMLResponse(page, headers={"Content-Security-Policy": "sandbox allow-scripts"})

    @routes.get("/{number}/stream", response_class=StreamingResponse, responses=_STREAM)
    async def stream_run(number: Number, request: Request, by: Viewer) -> StreamingResponse:
        """The run as server-sent events, one at each change, until it has ended."""
        await run_in_threadpool(manager.runs.get, number)
        return StreamingResponse(_told(manager, number, request), media_type="text/event-stream",
                                 headers={"Cache-Control": "no-store"})  # fmt: skip

    @routes.post("/{number}/stop")
    def stop_run(number: Number, by: Operator) -> Run:
        """Stop a run once it has written a checkpoint. Asking twice is asking once."""
        with manager.database.write() as connection:
            run = manager.runs.ask_stop(connection, number)
            for hook in manager.launcher.ended if run.state in ENDED else ():
                hook(connection, run)
        manager.launcher.wake()
        return _now(manager, run)

    @routes.post("/{number}/resume")
    def resume_run(number: Number, by: Operator) -> Run:
        """Go on with a stopped or failed run from its checkpoint."""
        with manager.database.write() as connection:
            run = manager.runs.resume(connection, number)
        manager.launcher.wake()
        return run

    @routes.delete("/{number}", status_code=204)
    def delete_run(number: Number, by: Operator) -> None:
        """Forget a run that has ended, and its folder."""
        with manager.database.write() as connection:
            manager.runs.delete(connection, number)
        shutil.rmtree(manager.launcher.folder(number), ignore_errors=True)

    return routes


def _folder(manager: Manager, run: Run) -> Path:
    folder = manager.launcher.folder(run.number)
    if run.state in ENDED and not folder.exists():
        remedy = "its result is kept; serve --keep-runs says how many folders are"
        raise Unknown(f"run {run.number} has no files (any more)", remedy=remedy)
    return folder


def _end(path: Path) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read()


def _now(manager: Manager, run: Run) -> Run:
    return replace(run, progress=manager.launcher.progress(run))


def _lines(manager: Manager, number: int, name: str, after: int, limit: int) -> Page[dict[str, Any]]:
    """A page of a file of JSON lines; cursors are places in it."""
    path = _folder(manager, manager.runs.get(number)) / name
    if not begins_line(path, after):
        raise InputError("after is not a cursor of this list", remedy=AGAIN, key="after")
    lines, _ = tail(path, after)
    after += sum(len(line) + 1 for line in lines[:limit])
    return Page(items=list(rows(lines[:limit])), next=str(after) if lines else None)


async def _told(manager: Manager, number: int, request: Request) -> AsyncIterator[str]:
    before, silent_s = None, 0.0
    while not manager.closing.is_set() and not await request.is_disconnected():
        run = _now(manager, await run_in_threadpool(manager.runs.get, number))
        changed, before = run != before, run
        if changed:
            yield f"event: run\ndata: {json.dumps(asdict(run))}\n\n"
        if run.state in ENDED:
            return
        silent_s = 0.0 if changed else silent_s + _LOOK_S
        if silent_s >= BEAT_S:
            silent_s = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(_LOOK_S)
