"""The continuum as inline SVG: cloud above fog above edge, sites as boxes, links as wide as their rate.

Every label has a place of its own: a link's stands above the lower of its two sites, within that site's
column, so labels never meet whatever the shape of the graph. Colours come from the page's style sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

from littoral.continuum.device import TIERS
from littoral.reports.outline import Entry, Outline, Place, Tie

WIDTH, GUTTER, GAP, PAD = 1120, 72, 22, 14
LINE, HEAD, CURVE = 16, 28, 38  # heights: a line of text, a site's heading, the room in which links bend
WIDEST, CHARACTER = 330, 6.4  # of a box, and of a letter, in pixels


@dataclass
class _Box:
    place: Place
    x: float
    y: float
    width: float
    height: float
    ties: list[Tie] = field(default_factory=list)  # those whose label stands above this box
    above: float = 0.0  # where the labels begin
    room: float = 0.0  # and how wide they may be


def draw(outline: Outline) -> str:
    """The SVG element."""
    boxes: dict[str, _Box] = {}
    bands: list[tuple[str, float, float]] = []
    y = 0.0
    for tier in reversed(TIERS):
        places = [place for place in outline.places if place.tier == tier]
        if places:
            top, y = y, _lay_out(places, outline.ties, y, boxes)
            bands.append((tier, top, y))
            y += 10
    parts = [_band(*band) for band in bands]
    parts += _lines(outline.ties, boxes)
    parts += [_site(box) for box in boxes.values()]
    title = f"Continuum of {sum(p.count for p in outline.places)} sites"
    return (
        f'<svg class="graph" viewBox="0 0 {WIDTH} {y:.0f}" role="img" aria-label="{title}">' + "".join(parts) + "</svg>"
    )


def _lay_out(places: list[Place], ties: tuple[Tie, ...], y: float, boxes: dict[str, _Box]) -> float:
    """Put a tier's places in rows of boxes from ``y`` down; where the tier ends."""
    columns = min(len(places), 3 if len(places) in (3, 5, 6) else 4)
    width = min(WIDEST, (WIDTH - GUTTER - PAD - GAP * (columns - 1)) / columns)
    room = WIDTH - GUTTER - PAD
    for first in range(0, len(places), columns):
        row = places[first : first + columns]
        own = {place.title: [tie for tie in ties if tie.low == place.title] for place in row}
        labels = max(len(found) for found in own.values())
        above = y + (CURVE if labels else PAD)
        top = above + labels * LINE + (8 if labels else 0)
        step = room / len(row)
        for index, place in enumerate(row):
            x = GUTTER + step * index + (step - width) / 2
            boxes[place.title] = _Box(place, x, top, width, _height(place), own[place.title], above, step - GAP)
        y = top + max(_height(place) for place in row) + PAD
    return y


def _height(place: Place) -> float:
    rows = sum(1 + len(entry.lines) for entry in place.entries)
    return HEAD + rows * LINE + 8 * len(place.entries) + (LINE + 6 if place.network else 0) + 6


def _band(tier: str, top: float, bottom: float) -> str:
    return (
        f'<rect class="band {tier}" x="0" y="{top:.0f}" width="{WIDTH}" height="{bottom - top:.0f}" rx="10"/>'
        f'<text class="tier" x="{PAD}" y="{top + 24:.0f}">{tier}</text>'
    )


# -- links -----------------------------------------------------------------------------------------------


def _lines(ties: tuple[Tie, ...], boxes: dict[str, _Box]) -> list[str]:
    arriving: dict[str, list[Tie]] = {}
    for tie in sorted(ties, key=lambda tie: boxes[tie.low].x):
        arriving.setdefault(tie.high, []).append(tie)
    paths, labels = [], []
    for tie in ties:
        low, high = boxes[tie.low], boxes[tie.high]
        number, order = low.ties.index(tie), arriving[tie.high]
        x = low.x + PAD + 14 * number
        x2 = high.x + high.width * (order.index(tie) + 1) / (len(order) + 1)
        if high.y >= low.y:  # arrives from above, right of that site's own labels
            x2 = high.x + high.width - PAD - 14 * order.index(tie)
        dashes = ' stroke-dasharray="9 5"' if tie.varies else ""
        paths.append(
            f'<path class="link" d="{_course(low, high, x, x2)}" '
            f'stroke-width="{_stroke(tie.rate):.1f}"{dashes}>'
            f"<title>{escape(tie.title)}</title></path>"
        )
        start = low.x + PAD + 14 * len(low.ties)
        text = _cut(tie.label, (low.width + low.room) / 2 - (start - low.x))
        labels.append(_text(f"linklabel {low.place.tier}", start, low.above + LINE * number + 12, text, tie.title))
    return paths + labels


def _course(low: _Box, high: _Box, x: float, x2: float) -> str:
    """Straight up past the labels, then over to the other site's edge."""
    edge = low.above
    rise = f"M{x:.0f} {low.y:.0f}V{edge:.0f}"
    if high.y >= low.y:  # side by side: over the top
        over = edge - CURVE
        return f"{rise}C{x:.0f} {over:.0f} {x2:.0f} {over:.0f} {x2:.0f} {edge:.0f}V{high.y:.0f}"
    end = high.y + high.height
    bend = max(CURVE, (edge - end) / 2)
    return f"{rise}C{x:.0f} {edge - bend:.0f} {x2:.0f} {end + bend:.0f} {x2:.0f} {end:.0f}"


def _stroke(rate: float) -> float:
    """From 1.5 px at 1 Mbit/s and below, 1.7 px more for each factor of ten, up to 9 px."""
    return min(9.0, 1.5 + 1.7 * max(0.0, math.log10(max(rate, 1.0) * 8 / 1e6)))


# -- sites -----------------------------------------------------------------------------------------------


def _site(box: _Box) -> str:
    place, x = box.place, box.x
    parts = [
        f'<rect class="site" x="{x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="8"/>',
        _text("sitename", x + PAD, box.y + 20, _cut(place.title, box.width / 1.3), ", ".join(place.members)),
    ]
    y = box.y + HEAD
    for entry in place.entries:
        parts.append(_device(entry, x + PAD, y, box.width))
        y += (1 + len(entry.lines)) * LINE + 8
    if place.network:
        parts.append(_text("network", x + PAD, y + LINE, _cut(place.network, box.width), place.network))
    return f"<g>{''.join(parts)}</g>"


def _device(entry: Entry, x: float, y: float, width: float) -> str:
    count = f" (x{entry.count})" if entry.count > 1 else ""
    lines = [_text("device", x + 20, y + 13, _cut(entry.names + count, width - 20), entry.names)]
    for number, line in enumerate(entry.lines, start=1):
        lines.append(_text("detail", x + 20, y + 13 + LINE * number, _cut(line, width - 20), line))
    return glyph(entry.role, x + 6, y + 8) + "".join(lines)


def glyph(role: str, x: float, y: float) -> str:
    """A role's sign, told apart by its shape."""
    worker = f'<circle class="sign worker" cx="{x:.0f}" cy="{y:.0f}" r="5.5"/>'
    server = f'<rect class="sign server" x="{x - 5.5:.1f}" y="{y - 5.5:.1f}" width="11" height="11"/>'
    match role:
        case "worker":
            return worker
        case "server":
            return server
        case "worker+server":
            return server + f'<circle class="sign worker" cx="{x:.0f}" cy="{y:.0f}" r="3.5"/>'
        case "store":
            return f'<path class="sign store" d="M{x:.0f} {y - 7:.0f}l7 7l-7 7l-7 -7z"/>'
    return f'<circle class="sign idle" cx="{x:.0f}" cy="{y:.0f}" r="5"/>'


def _text(kind: str, x: float, y: float, text: str, title: str) -> str:
    whole = f"<title>{escape(title)}</title>" if title != text else ""
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{whole}{escape(text)}</text>'


def _cut(text: str, width: float) -> str:
    room = int((width - 1.5 * PAD) / CHARACTER)
    return text if len(text) <= room else text[: room - 1] + "…"
