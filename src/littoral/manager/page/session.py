"""Logging in and out: a token is given once, and only its id stays, in a signed cookie that scripts cannot read.

The id is looked up at every step, so that a revoked or expired token ends its visits. The page's answers
carry a policy that keeps the browser from asking anybody else for anything.
"""

from __future__ import annotations

import hashlib
import secrets
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from littoral.manager.address import write_private
from littoral.manager.page.assets import head
from littoral.manager.page.view import BASE
from littoral.manager.tokens import Role, Token

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from littoral.manager.manager import Manager

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_LASTS_S = 14 * 24 * 3600


def signing_key(folder: Path) -> str:
    """The key that signs the cookies of a data folder; made once, readable by its owner only."""
    path = folder / "page.key"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text()


def cookie(key: str, secure: bool) -> dict[str, Any]:
    """How the session's cookie is kept. Its name is the folder's own: a host may have several managers."""
    name = f"littoral-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    return {"session_cookie": name, "same_site": "lax", "https_only": secure, "max_age": _LASTS_S, "path": BASE}


def visitor(manager: Manager, request: Request) -> Token | None:
    """Whose page it is; None unless the token is still valid."""
    token = manager.tokens.with_id(str(request.session.get("token", "")))
    return token if token is not None and token.role is not Role.INGEST else None


def to_login(request: Request) -> Response:
    """Where one logs in, and is sent on from."""
    return RedirectResponse(f"{BASE}/login?to={quote(request.url.path)}", 303)


def login_page(request: Request) -> Response:
    """Ask for a token."""
    return HTMLResponse(_form(_local(request.query_params.get("to", "")), ""))


async def log_in(manager: Manager, request: Request) -> Response:
    """Take a token, in the body of a form of ours."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    to = _local("".join(form.get("to", [])[:1]))
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return HTMLResponse(_form(to, "The form came from another site."), 403)
    token = manager.tokens.find("".join(form.get("token", [])[:1]).strip())
    if token is None:
        return HTMLResponse(_form(to, "This token opens nothing: it is unknown, expired or revoked."), 401)
    if token.role is Role.INGEST:
        return HTMLResponse(_form(to, "This token is for samples only. Use a viewer's or an operator's."), 403)
    request.session["token"] = token.id
    return RedirectResponse(to, 303)


def log_out(request: Request) -> Response:
    """Forget whose page it was."""
    request.session.clear()
    return RedirectResponse(f"{BASE}/login", 303)


def _local(path: str) -> str:
    """A path of the page; nowhere else."""
    return path if path.startswith(f"{BASE}/") and "\\" not in path and "//" not in path else f"{BASE}/"


def _form(to: str, wrong: str) -> str:
    alert = f'<p class="said bad" role="alert" id="wrong">{escape(wrong)}</p>' if wrong else ""
    about = ' aria-describedby="wrong" aria-invalid="true"' if wrong else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in - Littoral</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{head()}</head>'
        '<body><div class="lit"><main class="login card"><h1>Littoral</h1>'
        f'<form method="post" action="{BASE}/login">{alert}<label for="token">Token</label>'
        f'<input id="token" name="token" type="password" autocomplete="current-password" required autofocus{about}>'
        f'<input type="hidden" name="to" value="{escape(to)}"><button class="main">Log in</button></form>'
        '<p class="note">The first one was shown when the manager started. To make another: '
        "<code>littoral token create NAME --role viewer</code></p></main></div></body></html>"
    )


class Policy:
    """ASGI middleware: what the page's answers say about themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, with_policy)
