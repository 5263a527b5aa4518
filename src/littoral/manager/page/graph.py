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
from littoral.manager.page.scene import Scene
from littoral.manager.page.site_rows import cut, site_rows, text
from littoral.planning.plan import Plan, Prediction
from littoral.reports.outline import Place, Tie, outline_of

LINE, HEAD, PAD, GAP = 19, 30, 12, 26
_BETWEEN = 16  # tiers
_NOBODY = Plan(
    planner="", strategy="", workers=(), epochs=1,
    predicted=Prediction(time_s=0, epoch_s=0, bytes_sent=0, wan_bytes=0, cost_usd=0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Box:
    place: Place
    rows: list[str]
    x: float
    y: float
    width: float

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
    members = {place.title: place.members for place in outline.places}
    scene = Scene(continuum, outline, known, loads, members)
    return _drawn(_WIDE, scene) + _drawn(_NARROW, scene)


def _drawn(paper: _Paper, scene: Scene) -> str:
    boxes: dict[str, _Box] = {}
    bands, y = "", 0.0
    for tier in reversed(TIERS):
        places = [place for place in scene.outline.places if place.tier == tier]
        if places:
            top, y = y, _lay_out(paper, scene, places, y, boxes)
            bands += _band(paper, tier, top, y)
            y += _BETWEEN
    ties = [tie for tie in scene.outline.ties if scene.has_curve(tie)] if paper.curves else []
    curves = "".join(_curve(tie, boxes, lit=scene.carried(tie) > 0) for tie in ties)
    sites = "".join(_site(box) for box in boxes.values())
    kind = "wide" if paper.curves else "narrow"
    working = sum(device.state == "working" for device in scene.devices.values())
    label = f"Continuum {scene.continuum.name}: {len(scene.devices)} devices, {working} working"
    return (
        f'<svg class="graph {kind}" viewBox="0 0 {paper.width:.0f} {y - _BETWEEN:.0f}" role="img" '
        f'aria-label="{escape(label)}">{bands}{curves}{sites}</svg>'
    )


def _lay_out(paper: _Paper, scene: Scene, places: Sequence[Place], y: float, boxes: dict[str, _Box]) -> float:
    """Put a tier's sites in rows of boxes from ``y`` down; where the tier ends."""
    columns = min(len(places), 3 if paper.curves and len(places) in (3, 5, 6) else paper.columns)
    room = (paper.width - paper.gutter - 2 * PAD) / columns
    y += PAD + (0 if paper.curves else 20)
    for first in range(0, len(places), columns):
        row = places[first : first + columns]
        for index, place in enumerate(row):
            width = min(paper.widest, room - (GAP if columns > 1 else 0))
            x = paper.gutter + PAD + room * index + (room - width) / 2
            boxes[place.title] = _Box(place, site_rows(scene, place, width), x, y, width)
        y += max(boxes[place.title].height for place in row) + (GAP if paper.curves else PAD)
    return y - (GAP - PAD if paper.curves else 0)


def _band(paper: _Paper, tier: str, top: float, bottom: float) -> str:
    return (
        f'<rect class="band {tier}" x="0" y="{top:.0f}" width="{paper.width:.0f}" height="{bottom - top:.0f}" rx="10"/>'
        f'<text class="tier" x="{PAD}" y="{top + 22:.0f}">{tier}</text>'
    )


# -- sites and links -------------------------------------------------------------------------------------------------


def _site(box: _Box) -> str:
    rows = "".join(
        f'<g transform="translate(8 {HEAD + LINE * number:.0f})">{row}</g>' for number, row in enumerate(box.rows)
    )
    name = text("sitename", 12, 20, cut(box.place.title, box.width))
    return (
        f'<g transform="translate({box.x:.0f} {box.y:.0f})">'
        f'<rect class="site" width="{box.width:.0f}" height="{box.height:.0f}" rx="8"/>{name}{rows}</g>'
    )


def _curve(tie: Tie, boxes: Mapping[str, _Box], *, lit: bool) -> str:
    low, high = boxes[tie.low], boxes[tie.high]
    x, x2 = low.x + low.width / 2, high.x + high.width / 2
    if abs(low.y - high.y) < 1:  # side by side
        course = f"M{x:.0f} {low.y:.0f}C{x:.0f} {low.y - 24:.0f} {x2:.0f} {low.y - 24:.0f} {x2:.0f} {low.y:.0f}"
    else:
        end = high.y + high.height
        bend = max(14.0, (low.y - end) / 2)
        course = f"M{x:.0f} {low.y:.0f}C{x:.0f} {low.y - bend:.0f} {x2:.0f} {end + bend:.0f} {x2:.0f} {end:.0f}"
    title = f"<title>{escape(tie.title)}</title>"
    kind = "tie lit" if lit else "tie"
    return f'<path class="{kind}" d="{course}" stroke-width="{_stroke(tie.rate):.1f}">{title}</path>'


def _stroke(rate: float) -> float:
    return min(7.0, 1.5 + 1.3 * max(0.0, math.log10(max(rate, 1.0) * 8 / 1e6)))
