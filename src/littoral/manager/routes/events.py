"""``/events``: what happened, page by page, or live as server-sent events that resume where a reader stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from littoral.manager.events import Filter, ManagerEvent
from littoral.manager.manager import Manager
from littoral.manager.paging import LARGEST, Page, Window
from littoral.manager.requests import Viewer, Wanted, resource

_LOOK_S = 0.2  # between two looks for news
BEAT_S = 15.0  # of silence, after which proxies and readers are told that we are alive
Kind = Annotated[str | None, Query(max_length=100, description="'run.finished', or 'run.' for all that begin so.")]
Subject = Annotated[str | None, Query(max_length=200, description="Such as 'runs/12'.")]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20, pattern=r"^[0-9]{1,18}$")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events, as they happen"}
}


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("events", "/events")

    @routes.get("")
    def list_events(window: Wanted, by: Viewer, kind: Kind = None, subject: Subject = None) -> Page[ManagerEvent]:
        """What happened, the oldest first."""
        return manager.events.listed(window, Filter(kind=kind, subject=subject))

    @routes.get("/stream", response_class=StreamingResponse, responses=_STREAM)
    async def stream_events(
        request: Request, by: Viewer, kind: Kind = None, subject: Subject = None, last: LastId = None,
        until_now: Annotated[bool, Query(description="End when all that has happened is told.")] = False,
    ) -> StreamingResponse:  # fmt: skip
        """What happens, as server-sent events: those after ``Last-Event-ID``, or from now on."""
        start = int(last) if last is not None else manager.events.last()
        told = _told(manager, Filter(kind=kind, subject=subject), start, request, until_now)
        return StreamingResponse(told, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return routes


async def _told(manager: Manager, which: Filter, after: int, request: Request, until_now: bool) -> AsyncIterator[str]:
    silent_s = 0.0
    yield ": hello\n\n"
    while not manager.closing.is_set() and not await request.is_disconnected():
        window = Window(limit=LARGEST, after=str(after))
        news = await run_in_threadpool(manager.events.listed, window, which)
        for event in news.items:
            after = event.number
            yield f"id: {event.number}\nevent: {event.kind}\ndata: {json.dumps(asdict(event))}\n\n"
        if news.next is not None:
            continue
        if until_now:
            return
        silent_s = 0.0 if news.items else silent_s + _LOOK_S
        if silent_s >= BEAT_S:
            silent_s = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(_LOOK_S)
