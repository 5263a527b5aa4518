"""Pieces of HTML that the views are made of. Text passes through ``escape`` here or in the views, always."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from littoral.manager.page.view import BASE
from littoral.units import show_duration

NONE = '<span class="none">-</span>'


class Num(str):
    """The head of a column of numbers, which stand to the right."""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells; where there is no room for it, each row becomes a card."""
    top = "".join(f'<th scope="col"{_kind(head)}>{escape(head)}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, heads, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll {"few" if len(heads) <= 5 else "many"}"><table>'
        f'<caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _kind(head: str) -> str:
    return ' class="num"' if isinstance(head, Num) else ""


def _cell(head: str, cell: str) -> str:
    return f'<td{_kind(head)} data-head="{escape(head)}"><span>{cell}</span></td>'


def section(title: str, *body: str, id: str = "", aside: str = "") -> str:
    """A part of a view under its heading."""
    name = f' id="{id}"' if id else ""
    return (
        f'<section class="card"{name}><div class="top"><h2>{escape(title)}</h2>{aside}</div>{"".join(body)}</section>'
    )


def heading(title: str, *aside: str, note: str = "") -> str:
    """The top of a view; ``aside`` and ``note`` are HTML."""
    below = f'<p class="note">{note}</p>' if note else ""
    right = f'<div class="actions">{"".join(aside)}</div>' if any(aside) else ""
    return f'<div class="heading"><div><h1>{escape(title)}</h1>{below}</div>{right}</div>'


def tiles(*pairs: tuple[str, str, str]) -> str:
    """Figures that matter most: (what, value as HTML, a remark)."""
    cells = "".join(
        f"<div><dt>{escape(what)}</dt><dd>{value}<small>{escape(remark)}</small></dd></div>"
        for what, value, remark in pairs
    )
    return f'<dl class="tiles">{cells}</dl>'


def facts(*pairs: tuple[str, str]) -> str:
    """Names and values as HTML."""
    return f'<dl class="facts">{"".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in pairs)}</dl>'


def link(path: str, text: str) -> str:
    """To another view."""
    return f'<a href="{escape(BASE + path)}">{escape(text)}</a>'


def button(text: str, act: str, *, ask: str = "", kind: str = "", label: str = "", **data: object) -> str:
    """Does an act, after a question if ``ask`` has one; ``data`` goes with it."""
    sent = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    question = f' data-ask="{escape(ask)}"' if ask else ""
    name = f' aria-label="{escape(label)}"' if label else ""
    key = escape(f"{act}-{'-'.join(map(str, data.values()))}")
    return (
        f'<button type="button" class="{kind}" id="do-{key}" data-act="{act}"{question}{name}{sent}>'
        f"{escape(text)}</button>"
    )


def badge(state: str, kind: str = "") -> str:
    """A state, told by its word, a sign and a colour."""
    return f'<span class="badge {escape(kind or state)}">{escape(state)}</span>'


def bar(share: float, label: str) -> str:
    """How much is done."""
    value = min(1.0, max(0.0, share))
    return (
        f'<span class="bar" role="progressbar" aria-label="{escape(label)}" aria-valuenow="{100 * value:.0f}">'
        f'<span style="width:{100 * value:.1f}%"></span></span>'
    )


def empty(text: str, *more: str) -> str:
    """Nothing is there yet; what to do next. ``more`` is HTML."""
    return f'<div class="empty"><p>{escape(text)}</p>{"".join(more)}</div>'


def code(text: str) -> str:
    """Text as it stands."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def folded(id: str, summary: str, body: str) -> str:
    """A part that opens when asked, and stays so."""
    return f'<details id="{id}"><summary>{escape(summary)}</summary>{body}</details>'


# -- figures ----------------------------------------------------------------------------------------------------------


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "run"), count(3, "strike")
    ('1 run', '3 strikes')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1."""
    return NONE if share is None else f"{100 * share:.{digits}f}&nbsp;%"


def seconds(value: float | None) -> str:
    """A duration."""
    return NONE if value is None else escape(show_duration(value)).replace(" ", "&nbsp;")


def ago(then: float | None, now: float) -> str:
    """A time, as people say it; the exact one shows when pointed at."""
    if then is None:
        return NONE
    moment = datetime.fromtimestamp(then, UTC)
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f'<time datetime="{moment.isoformat()}" title="{exact}">{_passed(now - then)}</time>'


def _passed(passed: float) -> str:
    if abs(passed) < 5:
        return "just now"
    for least, unit in ((86400, "d"), (3600, "h"), (60, "min"), (5, "s")):
        if abs(passed) >= least:
            size = int(abs(passed) // least) * (5 if unit == "s" else 1)
            return f"{size}&nbsp;{unit} ago" if passed > 0 else f"in {size}&nbsp;{unit}"
    return "just now"
