"""Puts the page on the service: NiceGUI under ``/page``, one route per view, its storage in the data folder."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fastapi.concurrency import run_in_threadpool
from nicegui import app as site
from nicegui import ui
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from littoral.errors import LittoralError
from littoral.manager.page.assets import ICON, STYLE, head, style_path
from littoral.manager.page.course import Courses
from littoral.manager.page.frame import framed, refusal
from littoral.manager.page.live import Live
from littoral.manager.page.session import Policy, cookie, log_in, log_out, login_page, signing_key, to_login, visitor
from littoral.manager.page.view import BASE, Said, View, Visit
from littoral.manager.page.views import VIEWS
from littoral.manager.reporting import report
from littoral.manager.runs import ENDED

if TYPE_CHECKING:
    from fastapi import FastAPI

    from littoral.manager.manager import Manager

_log = logging.getLogger(__name__)
_RECONNECT_S = 30.0  # for which a page that lost its connection is kept
_REFUSED = Said("This needs an operator's token.", bad=True)


def install(app: FastAPI, manager: Manager, *, secure: bool) -> None:
    """Add the page to a service; ``secure`` if it is served over TLS. One service of a process can have it."""
    site.storage.path = manager.folder / "page"
    key, courses = signing_key(manager.folder), Courses(manager.launcher.folder)
    for view in VIEWS:
        ui.page(view.path, title=f"{view.title} - Littoral", language="en-US")(_page(manager, courses, view))
    _add_routes(manager)
    site.add_middleware(Policy)
    app.add_api_route("/", lambda: RedirectResponse(f"{BASE}/"), include_in_schema=False)
    ui.run_with(
        app, mount_path=BASE, title="Littoral", storage_secret=key, session_middleware_kwargs=cookie(key, secure),
        tailwind=False, show_welcome_message=False, reconnect_timeout=_RECONNECT_S, binding_refresh_interval=None,
        favicon=ICON,
    )  # fmt: skip


def _add_routes(manager: Manager) -> None:
    """What is no view: the style sheet, logging in and out, a run's report."""

    async def enter(request: Request) -> Response:
        return await log_in(manager, request)

    async def show_report(request: Request) -> Response:
        if visitor(manager, request) is None:
            return to_login(request)
        return await run_in_threadpool(_report, manager, request.path_params["number"])

    site.add_route(style_path(), lambda _: FileResponse(STYLE, headers={"Cache-Control": "max-age=31536000"}))
    site.add_route("/login", login_page, methods=["GET"])
    site.add_route("/login", enter, methods=["POST"])
    site.add_route("/logout", log_out, methods=["POST"])
    site.add_route("/runs/{number:int}/report", show_report)


def _report(manager: Manager, number: int) -> Response:
    try:
        run = manager.runs.get(number)
        page = report(manager.launcher.folder(number), ended=run.state in ENDED)
        return HTMLResponse(page, headers={"Content-Security-Policy": "sandbox allow-scripts"})
    except LittoralError as error:
        return HTMLResponse(refusal(error), 404)


def _page(manager: Manager, courses: Courses, view: View) -> Callable[[Request], Awaitable[Response | None]]:
    """A view's route: it shows the view, and again whenever it has changed."""

    async def page(request: Request) -> Response | None:
        token = visitor(manager, request)
        if token is None:
            return to_login(request)
        ui.add_head_html(head())
        await _follow(view, Visit(manager, courses, token, {**request.query_params, **request.path_params}))
        return None

    return page


async def _follow(view: View, visit: Visit) -> None:
    async def heard(act: str, fields: dict[str, str]) -> None:
        visit.said = await run_in_threadpool(_do, view, visit, act, fields)
        if visit.said.go:
            ui.navigate.to(visit.said.go)  # NiceGUI adds where it is mounted
        else:
            await look()

    async def look() -> None:
        if await run_in_threadpool(visit.manager.tokens.with_id, visit.token.id) is None:
            ui.navigate.to("/login")
        else:
            live.show(await run_in_threadpool(framed, view, visit))

    live = Live(await run_in_threadpool(framed, view, visit), heard)
    ui.timer(view.every_s, look)


def _do(view: View, visit: Visit, act: str, fields: dict[str, str]) -> Said:
    """Act, if the visitor may; whatever the browser shows, the token decides, and it is looked up again."""
    token = visit.manager.tokens.with_id(visit.token.id)
    if token is None or not visit.may_write:
        return _REFUSED
    if act not in view.acts:
        return Said(f"There is no {act[:40]!r} here.", bad=True)
    try:
        return view.acts[act](visit, fields)
    except LittoralError as error:
        return Said(refusal(error), bad=True)
    except Exception:
        _log.exception("%s of %s failed", act, view.path)
        return Said("The manager failed at this; its log says why.", bad=True)
