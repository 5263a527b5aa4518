"""What happened in the manager, the newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from littoral.manager.events import Filter, ManagerEvent
from littoral.manager.page.pieces import ago, empty, heading, link
from littoral.manager.page.view import BASE, View, Visit
from littoral.manager.paging import Window

_MOST = 200
_FURTHEST = 10_000  # events to look back over
_KINDS = ("run", "job", "plan", "model", "update", "trigger", "device", "continuum", "token")
_STEPS = ("run.evaluated", "run.epoch", "run.checkpointed")
_PLACES = {
    "runs": "/runs/{}", "jobs": "/runs?job={}", "plans": "/plans/{}", "models": "/models/{}", "triggers": "/triggers",
    "devices": "/devices", "continuums": "/devices",
}  # fmt: skip
_SHOWN = 160  # characters of an event's data


def show(visit: Visit) -> str:
    """The newest of all, or of a kind."""
    return heading("Events", _filter(_kind(visit))) + f'<div class="card">{events_list(visit, _MOST)}</div>'


def events_list(visit: Visit, most: int, *, brief: bool = False) -> str:
    """The newest, as a list; in brief without every step of every run."""
    found = _newest(visit, most, _kind(visit), _STEPS if brief else ())
    if not found:
        return empty("Nothing has happened yet.")
    return f'<ul class="story">{"".join(_line(visit, event) for event in found)}</ul>'


def _newest(visit: Visit, most: int, kind: str, without: Sequence[str]) -> list[ManagerEvent]:
    """Looks further and further back, until there are enough; no further than a page of the service has."""
    events = visit.manager.events
    which, reach, last = Filter(kind=f"{kind}." if kind else None), most, events.last()
    while True:
        window = Window(limit=reach, after=str(max(0, last - reach)))
        found = [event for event in events.listed(window, which).items[::-1] if event.kind not in without]
        if len(found) >= most or reach >= min(last, _FURTHEST):
            return found[:most]
        reach *= 4


def _kind(visit: Visit) -> str:
    wanted = visit.place.get("kind", "")
    return wanted if wanted in _KINDS else ""


def _line(visit: Visit, event: ManagerEvent) -> str:
    return (
        f"<li>{ago(event.time, visit.now)} <span><b>{escape(event.kind)}</b> {_subject(event.subject)} "
        f'<span class="soft">{escape(_told(event.data))}</span></span></li>'
    )


def _subject(subject: str) -> str:
    """What it happened to, in words; a link where there is a view of it."""
    if not re.fullmatch(r"[a-z]+s/[\w.-]+", subject):
        return escape(subject)
    kind, _, name = subject.partition("/")
    shown = f"{kind.removesuffix('s')} {name}"
    return link(_PLACES[kind].format(name), shown) if kind in _PLACES else escape(shown)


def _told(data: dict[str, Any]) -> str:
    words = ", ".join(f"{key} {_word(value)}" for key, value in data.items() if value is not None)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _word(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _filter(kind: str) -> str:
    options = "".join(
        f'<option value="{one}"{" selected" if one == kind else ""}>{one or "all kinds"}</option>'
        for one in ("", *_KINDS)
    )
    return (
        '<label class="unseen" for="kind">Kind</label>'
        f'<select id="kind" data-go="{BASE}/events?kind=">{options}</select>'
    )


VIEW = View(path="/events", title="Events", show=show, under="events")
