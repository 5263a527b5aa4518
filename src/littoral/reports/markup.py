"""Small pieces of HTML. Whatever comes from a file passes through ``escape`` here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from littoral.units import show_bytes, show_duration

NONE = "-"
_TEXT = ' class="text"'
_WIDE, _WIDEST = ' class="wide"', ' class="widest"'  # tables that a narrow page shows as cards


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; ``order`` is what its column sorts by, ``bar`` a share of 1 drawn behind."""

    text: str
    order: float | None = None
    bar: float | None = None
    mark: str = ""


def table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """A table whose columns sort when their heading is pressed; a heading is (text, what it means)."""
    words = {i for i in range(1, len(heads)) if all(row[i].order is None for row in rows)}
    kind = _WIDEST if len(heads) > 10 else _WIDE if len(heads) > 6 else ""
    names = [escape(text) if kind else "" for text, _ in heads]
    head = "".join(
        f'<th scope="col" aria-sort="none"{_TEXT if i in words else ""}>'
        f'<button type="button" title="{escape(hint)}">{escape(text)}</button></th>'
        for i, (text, hint) in enumerate(heads)
    )
    lines = ("".join(_cell(cell, i, i in words, names[i]) for i, cell in enumerate(row)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table{kind}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell, column: int, words: bool, head: str) -> str:
    name, scope = ("td", f' data-head="{head}"' if head else "") if column else ("th", ' scope="row"')
    order = "" if cell.order is None else f' data-order="{cell.order!r}"'
    kind = f' class="{cell.mark}"' if cell.mark else _TEXT if words else ""
    bar = "" if cell.bar is None else f'<span class="bar" style="width:{100 * cell.bar:.1f}%"></span>'
    return f"<{name}{scope}{order}{kind}>{bar}<span>{escape(cell.text)}</span></{name}>"


def number(value: float | None, form: str = ".3g", unit: str = "") -> Cell:
    """A figure that may be unknown."""
    return Cell(NONE) if value is None else Cell(f"{value:{form}}{unit}", value)


def percent(value: float | None, digits: int = 1) -> Cell:
    """A share of 1, with three digits that say something when it is tiny."""
    if value is None:
        return Cell(NONE)
    form = f".{digits}f" if value == 0 or abs(value) >= 0.01 else ".2g"
    return Cell(f"{100 * value:{form}} %", value)


def seconds(value: float | None) -> Cell:
    """A duration."""
    return Cell(NONE) if value is None else Cell(duration(value), value)


def duration(value: float) -> str:
    """A duration for people; nothing is '0 s', not '0 us'."""
    return show_duration(value) if value else "0 s"


def size(value: float | None) -> Cell:
    """A number of bytes."""
    return Cell(NONE) if value is None else Cell(show_bytes(value) if value else "0 B", value)


def money(value: float | None) -> Cell:
    """US dollars."""
    return Cell(NONE) if value is None else Cell(f"{value:.3g} USD", value)


def plot(figure: dict[str, Any], label: str) -> str:
    """A place for a figure, and the figure as data that the page's script draws when it comes into view."""
    from plotly.graph_objects import Figure

    drawn = Figure(figure["data"], figure["layout"] | {"template": "none"})
    data = json.dumps(json.loads(drawn.to_json()), separators=(",", ":")).replace("<", "\\u003c")
    height = int(figure["layout"]["height"])
    return (
        f'<div class="plot" role="img" aria-label="{escape(label)}" style="min-height:{height}px"></div>'
        f'<script type="application/json">{data}</script>'
    )


def folded(summary: str, body: str, *, opened: bool = False, kind: str = "") -> str:
    """A part that opens when asked; ``body`` is HTML."""
    state = " open" if opened else ""
    return f'<details class="{kind}"{state}><summary>{escape(summary)}</summary>{body}</details>'


def paragraph(text: str, kind: str = "note") -> str:
    """A line of plain text."""
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""


def code(text: str) -> str:
    """Text as it stands."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
