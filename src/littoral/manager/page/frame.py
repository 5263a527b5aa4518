"""The frame of every view: the skip link, the navigation, what was said last, and the view itself."""

from __future__ import annotations

from html import escape

from littoral.errors import InputError, LittoralError
from littoral.manager.page.pieces import heading
from littoral.manager.page.view import BASE, Said, View, Visit

_ENTRIES = (
    ("", "Overview"),
    ("runs", "Runs"),
    ("plans", "Plans"),
    ("models", "Models"),
    ("triggers", "Triggers"),
    ("devices", "Devices"),
    ("events", "Events"),
    ("submit", "Submit"),
    ("tokens", "Tokens"),
)
_FOR_OPERATORS = ("submit", "tokens")


def framed(view: View, visit: Visit) -> str:
    """The whole page."""
    return (
        '<a class="skip" href="#main">Skip to the content</a>'
        f'<header><a class="brand" href="{BASE}/">Littoral</a>{_navigation(view, visit)}{_who(visit)}</header>'
        f'<main id="main" tabindex="-1">{_said(visit.said)}{_shown(view, visit)}</main>'
    )


def _navigation(view: View, visit: Visit) -> str:
    entries = [entry for entry in _ENTRIES if visit.may_write or entry[0] not in _FOR_OPERATORS]
    links = "".join(f'<a href="{BASE}/{path}"{_current(path == view.under)}>{name}</a>' for path, name in entries)
    return f'<nav aria-label="Views">{links}</nav>'


def _current(here: bool) -> str:
    return ' aria-current="page"' if here else ""


def _who(visit: Visit) -> str:
    return (
        '<div class="who"><label class="unseen" for="theme">Colours</label><select id="theme" data-theme>'
        '<option value="system">auto</option><option value="light">light</option><option value="dark">dark</option>'
        f'</select><form method="post" action="{BASE}/logout"><button class="plain" '
        f'title="{escape(visit.token.name)}, {visit.token.role}">Log out<span class="unseen"> '
        f"{escape(visit.token.name)}</span></button></form></div>"
    )


def _said(said: Said | None) -> str:
    if said is None or not said.text:
        return '<div id="said" role="status" aria-live="polite"></div>'
    kind = "said bad" if said.bad else "said"
    role = "alert" if said.bad else "status"
    return f'<div id="said" role="{role}" aria-live="polite" class="{kind}">{escape(said.text)}</div>'


def _shown(view: View, visit: Visit) -> str:
    if view.operators and not visit.may_write:
        return heading(view.title, note="This is for operators; your token is a viewer's.")
    try:
        return view.show(visit)
    except LittoralError as error:
        return heading(view.title) + f'<p class="said bad" role="alert">{escape(refusal(error))}</p>'


def refusal(error: LittoralError) -> str:
    """What was wrong and what to do, without the places of files that only the server has."""
    if isinstance(error, InputError):
        return f"{error.found}; {error.remedy}" if error.remedy else error.found
    return str(error)
