"""What stands in the box of a site, line by line, as SVG: its devices, its data, and what its links carry."""

from __future__ import annotations

from html import escape

from littoral.manager.devices import DeviceRecord
from littoral.manager.page.pieces import count
from littoral.manager.page.scene import Scene
from littoral.reports.outline import Place, Tie
from littoral.units import show_rate

_MOST = 9  # devices of a site that are shown
_TIES = 4  # links of a site that are written
_LETTER = 6.6


def site_rows(scene: Scene, place: Place, width: float) -> list[str]:
    """What stands in a site's box, line by line."""
    found = sorted((device for device in scene.devices.values() if device.site in place.members), key=_first)
    rows = [_device(record, scene.loads.busy[record.name], width) for record in found[:_MOST]]
    if len(found) > _MOST:
        rows.append(text("detail", 14, 13, f"and {len(found) - _MOST} more"))
    stores = [store for store in scene.continuum.stores if store.site in place.members]
    rows += [_store(store.name, store.samples, width) for store in stores[:2]]
    inner = scene.loads.rate(place.members[0], place.members[0])
    rows += [text("detail", 4, 13, cut(f"inside: {show_rate(inner)} now", width))] if inner else []
    return rows + _ties(scene, place, width)


def _first(record: DeviceRecord) -> tuple[int, str]:
    return ("lost", "excluded", "working", "done", "idle").index(record.state), record.name


def _device(record: DeviceRecord, busy: float, width: float) -> str:
    share = min(1.0, busy)
    strikes = f" · {count(record.strikes, 'strike')}" if record.strikes else ""
    apps = f" · {', '.join(record.apps)}" if record.apps else ""
    gauge = _gauge(share, width) if record.state == "working" and share else ""
    right = f"{100 * share:.0f} %" if gauge else "" if record.state == "idle" else record.state
    probation = ", on probation" if record.probation else ""
    title = f"{record.name}: {record.state}, {record.kind}, {count(record.strikes, 'strike')}{probation}{apps}"
    return (
        f"<g><title>{escape(title)}</title>{_sign(record.state)}"
        f"{text('device', 22, 13, cut(f'{record.name}{strikes}{apps}', width - 112))}{gauge}"
        f'<text class="load" x="{width - 20:.0f}" y="13" text-anchor="end">{right}</text></g>'
    )


def _sign(state: str) -> str:
    if state == "lost":
        return '<path class="sign lost" d="M4 4l9 9M13 4l-9 9"/>'
    if state == "excluded":
        return '<path class="sign lost" d="M3 8.5h11"/>'
    return f'<circle class="sign {state}" cx="8.5" cy="8.5" r="5"/>'


def _gauge(share: float, width: float) -> str:
    left = width - 104
    return (
        f'<rect class="ground" x="{left:.0f}" y="6" width="40" height="6" rx="3"/>'
        f'<rect class="gauge" x="{left:.0f}" y="6" width="{40 * share:.1f}" height="6" rx="3"/>'
    )


def _store(name: str, samples: int, width: float) -> str:
    sign = '<path class="sign store" d="M8.5 2l6 6l-6 6l-6 -6z"/>'
    return f"<g>{sign}{text('detail', 22, 13, cut(f'{name}: {samples:,} samples', width - 20))}</g>"


def _ties(scene: Scene, place: Place, width: float) -> list[str]:
    """The links to sites above and beside, those in use first."""
    ties = sorted((tie for tie in scene.outline.ties if tie.low == place.title), key=scene.carried, reverse=True)
    rows = [_tie(tie, scene.carried(tie), width) for tie in ties[:_TIES]]
    more = len(ties) - len(rows)
    return rows + ([text("detail", 4, 13, f"and {more} more links")] if more else [])


def _tie(tie: Tie, now: float, width: float) -> str:
    words = f"{tie.label} · now {show_rate(now)}" if now else tie.label
    kind = "detail lit" if now else "detail"
    return f"<g><title>{escape(tie.title)}</title>{text(kind, 4, 13, cut(words, width + 8))}</g>"


def text(kind: str, x: float, y: float, words: str) -> str:
    """Words at a place."""
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'


def cut(words: str, width: float) -> str:
    """As many letters as have room."""
    room = max(4, int((width - 24) / _LETTER))
    return words if len(words) <= room else words[: room - 1] + "…"
