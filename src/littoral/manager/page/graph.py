"""The continuum as it is now, as inline SVG: tiers one above the other, sites as boxes, devices with state and load.

It is drawn twice, wide with curves for links and narrow with one site below the other; the style sheet shows the one
that fits. What a link carries is written in the box of its lower site, so that no text meets another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import TIERS
from littoral.manager.devices import DeviceRecord
from littoral.manager.page.loads import Loads
from littoral.planning.plan import Plan, Prediction
from littoral.reports.outline import Outline, Place, Tie, outline_of
from littoral.units import show_rate

LINE, HEAD, PAD, GAP = 19, 30, 12, 26
_BETWEEN = 16  # tiers
_MOST = 9  # devices of a site that are shown
_TIES = 4  # links of a site that are written
_LETTER = 6.6
_NOBODY = Plan(
    planner="", strategy="", workers=(), epochs=1,
    predicted=Prediction(time_s=0, epoch_s=0, bytes_sent=0, wan_bytes=0, cost_usd=0),
)  # fmt: skip


@dataclass
class _Box:
    place: Place
    rows: list[str]
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def height(self) -> float:
        return HEAD + LINE * len(self.rows) + 8


@dataclass(frozen=True, slots=True)
class _Paper:
    width: float
    gutter: float
    columns: int
    widest: float
    curves: bool


_WIDE = _Paper(1120, 64, 4, 330, True)
_NARROW = _Paper(360, 0, 1, 360, False)


def draw(continuum: Continuum, devices: Sequence[DeviceRecord], loads: Loads) -> str:
    """Both drawings."""
    outline = outline_of(continuum, _NOBODY)
    known = {device.name: device for device in devices}
    return "".join(_drawn(paper, continuum, outline, known, loads) for paper in (_WIDE, _NARROW))


def _drawn(
    paper: _Paper, continuum: Continuum, outline: Outline, known: Mapping[str, DeviceRecord], loads: Loads
) -> str:
    boxes: dict[str, _Box] = {}
    bands, y = "", 0.0
    for tier in reversed(TIERS):
        places = [place for place in outline.places if place.tier == tier]
        if places:
            top, y = y, _lay_out(paper, places, outline, continuum, known, loads, y, boxes)
            bands += _band(paper, tier, top, y)
            y += _BETWEEN
    curves = "".join(_curve(tie, boxes, loads) for tie in outline.ties if _drawn_as_curve(tie, outline, loads))
    sites = "".join(_site(box) for box in boxes.values())
    curves = curves if paper.curves else ""
    kind = "wide" if paper.curves else "narrow"
    working = sum(device.state == "working" for device in known.values())
    label = f"Continuum {continuum.name}: {len(known)} devices, {working} working"
    return (
        f'<svg class="graph {kind}" viewBox="0 0 {paper.width:.0f} {y - _BETWEEN:.0f}" role="img" '
        f'aria-label="{escape(label)}">{bands}{curves}{sites}</svg>'
    )


def _lay_out(
    paper: _Paper, places: Sequence[Place], outline: Outline, continuum: Continuum,
    known: Mapping[str, DeviceRecord], loads: Loads, y: float, boxes: dict[str, _Box],
) -> float:  # fmt: skip
    """Put a tier's sites in rows of boxes from ``y`` down; where the tier ends."""
    columns = min(len(places), 3 if paper.curves and len(places) in (3, 5, 6) else paper.columns)
    room = (paper.width - paper.gutter - 2 * PAD) / columns
    y += PAD + (0 if paper.curves else 20)
    for first in range(0, len(places), columns):
        row = places[first : first + columns]
        for index, place in enumerate(row):
            width = min(paper.widest, room - (GAP if columns > 1 else 0))
            rows = _rows(place, width, outline, continuum, known, loads)
            x = paper.gutter + PAD + room * index + (room - width) / 2
            boxes[place.title] = _Box(place, rows, x, y, width)
        y += max(boxes[place.title].height for place in row) + (GAP if paper.curves else PAD)
    return y - (GAP - PAD if paper.curves else 0)


def _band(paper: _Paper, tier: str, top: float, bottom: float) -> str:
    return (
        f'<rect class="band {tier}" x="0" y="{top:.0f}" width="{paper.width:.0f}" height="{bottom - top:.0f}" rx="10"/>'
        f'<text class="tier" x="{PAD}" y="{top + 22:.0f}">{tier}</text>'
    )


# -- a site -----------------------------------------------------------------------------------------------------------


def _rows(
    place: Place, width: float, outline: Outline, continuum: Continuum, known: Mapping[str, DeviceRecord], loads: Loads
) -> list[str]:
    """What stands in a site's box, line by line."""
    names = [device.name for device in continuum.devices if device.site in place.members]
    found = sorted((known[name] for name in names if name in known), key=_first)
    rows = [_device(record, loads.busy[record.name], width) for record in found[:_MOST]]
    if len(found) > _MOST:
        rows.append(_text("detail", 14, 13, f"and {len(found) - _MOST} more"))
    stores = [store for store in continuum.stores if store.site in place.members]
    rows += [_store(store.name, store.samples, width) for store in stores[:2]]
    inner = loads.rate(place.members[0], place.members[0])
    rows += [_text("detail", 4, 13, _cut(f"inside: {show_rate(inner)} now", width))] if inner else []
    return rows + _ties(place, width, outline, loads)


def _first(record: DeviceRecord) -> tuple[int, str]:
    return ("lost", "excluded", "working", "done", "idle").index(record.state), record.name


def _device(record: DeviceRecord, busy: float, width: float) -> str:
    share = min(1.0, busy)
    strikes = f" · {'✕' * record.strikes}" if record.strikes else ""
    apps = f" · {', '.join(record.apps)}" if record.apps else ""
    gauge = _gauge(share, width) if record.state == "working" and share else ""
    right = f"{100 * share:.0f} %" if gauge else "" if record.state == "idle" else record.state
    title = f"{record.name}: {record.state}, {record.kind}, {record.strikes} strikes{apps}"
    return (
        f"<g><title>{escape(title)}</title>{_sign(record.state)}"
        f"{_text('device', 22, 13, _cut(f'{record.name}{strikes}{apps}', width - 104))}{gauge}"
        f'<text class="load" x="{width - 20:.0f}" y="13" text-anchor="end">{right}</text></g>'
    )


def _sign(state: str) -> str:
    if state == "lost":
        return '<path class="sign lost" d="M4 4l9 9M13 4l-9 9"/>'
    if state == "excluded":
        return '<path class="sign lost" d="M3 8.5h11"/>'
    return f'<circle class="sign {state}" cx="8.5" cy="8.5" r="5"/>'


def _gauge(share: float, width: float) -> str:
    left = width - 96
    return (
        f'<rect class="ground" x="{left:.0f}" y="6" width="40" height="6" rx="3"/>'
        f'<rect class="gauge" x="{left:.0f}" y="6" width="{40 * share:.1f}" height="6" rx="3"/>'
    )


def _store(name: str, samples: int, width: float) -> str:
    sign = '<path class="sign store" d="M8.5 2l6 6l-6 6l-6 -6z"/>'
    return f"<g>{sign}{_text('detail', 22, 13, _cut(f'{name}: {samples:,} samples', width - 20))}</g>"


def _ties(place: Place, width: float, outline: Outline, loads: Loads) -> list[str]:
    """The links to sites above and beside, those in use first."""
    ties = sorted(
        (tie for tie in outline.ties if tie.low == place.title), key=lambda tie: -_carried(tie, loads, outline)
    )
    rows = [_tie(tie, loads, outline, width) for tie in ties[:_TIES]]
    more = len(ties) - len(rows)
    return rows + ([_text("detail", 4, 13, f"and {more} more links")] if more else [])


def _tie(tie: Tie, loads: Loads, outline: Outline, width: float) -> str:
    now = _carried(tie, loads, outline)
    text = f"{tie.label} · now {show_rate(now)}" if now else tie.label
    kind = "detail lit" if now else "detail"
    return f"<g><title>{escape(tie.title)}</title>{_text(kind, 4, 13, _cut(text, width + 8))}</g>"


def _carried(tie: Tie, loads: Loads, outline: Outline) -> float:
    places = {place.title: place.members for place in outline.places}
    return sum(loads.rate(low, high) for low in places[tie.low] for high in places[tie.high])


def _site(box: _Box) -> str:
    rows = "".join(
        f'<g transform="translate(8 {HEAD + LINE * number:.0f})">{row}</g>' for number, row in enumerate(box.rows)
    )
    name = _text("sitename", 12, 20, _cut(box.place.title, box.width))
    return (
        f'<g transform="translate({box.x:.0f} {box.y:.0f})">'
        f'<rect class="site" width="{box.width:.0f}" height="{box.height:.0f}" rx="8"/>{name}{rows}</g>'
    )


# -- links ------------------------------------------------------------------------------------------------------------


def _drawn_as_curve(tie: Tie, outline: Outline, loads: Loads) -> bool:
    """All of them, or in a mesh, where they would hide each other, those in use."""
    return len(outline.ties) <= 2 * len(outline.places) or _carried(tie, loads, outline) > 0


def _curve(tie: Tie, boxes: Mapping[str, _Box], loads: Loads) -> str:
    low, high = boxes[tie.low], boxes[tie.high]
    members = [(a, b) for a in low.place.members for b in high.place.members]
    lit = " lit" if any(loads.rate(a, b) for a, b in members) else ""
    x, x2 = low.x + low.width / 2, high.x + high.width / 2
    if abs(low.y - high.y) < 1:  # side by side
        course = f"M{x:.0f} {low.y:.0f}C{x:.0f} {low.y - 24:.0f} {x2:.0f} {low.y - 24:.0f} {x2:.0f} {low.y:.0f}"
    else:
        end = high.y + high.height
        bend = max(14.0, (low.y - end) / 2)
        course = f"M{x:.0f} {low.y:.0f}C{x:.0f} {low.y - bend:.0f} {x2:.0f} {end + bend:.0f} {x2:.0f} {end:.0f}"
    title = f"<title>{escape(tie.title)}</title>"
    return f'<path class="tie{lit}" d="{course}" stroke-width="{_stroke(tie.rate):.1f}">{title}</path>'


def _stroke(rate: float) -> float:
    return min(7.0, 1.5 + 1.3 * max(0.0, math.log10(max(rate, 1.0) * 8 / 1e6)))


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _cut(text: str, width: float) -> str:
    room = max(4, int((width - 24) / _LETTER))
    return text if len(text) <= room else text[: room - 1] + "…"
