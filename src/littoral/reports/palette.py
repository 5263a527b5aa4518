"""Colours that people with colour-blindness tell apart, each with a dash, a symbol or a hatch beside it.

After Okabe and Ito (2008), a little lighter so that all of them show on white and on near-black.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Look:
    """How one variant is drawn everywhere: in Plotly's and matplotlib's words."""

    colour: str
    dash: str
    symbol: str
    line: str
    marker: str


LOOKS = (
    Look("#2a7fc9", "solid", "circle", "-", "o"),
    Look("#e69f00", "dash", "square", "--", "s"),
    Look("#14a37f", "dot", "diamond", ":", "D"),
    Look("#d9622b", "dashdot", "triangle-up", "-.", "^"),
    Look("#c678b0", "longdash", "cross", (0, (8, 3)), "P"),  # type: ignore[arg-type]
    Look("#56b4e9", "longdashdot", "x", (0, (8, 2, 1, 2)), "X"),  # type: ignore[arg-type]
    Look("#8f8f2a", "solid", "star", "-", "*"),
    Look("#7f8c99", "dash", "hexagon", "--", "h"),
)

SPAN_COLOURS = {
    "compute": "#2a7fc9",
    "fetch": "#c678b0",
    "send": "#e69f00",
    "wait": "#9aa5b1",
    "lost": "#d9622b",
}

# kind of mark: (its name in legends, Plotly's symbol, matplotlib's, colour)
MARKS = {
    "epoch": ("epoch done", "line-ns-open", "|", "#7f8c99"),
    "evaluation": ("evaluation", "circle-open", "o", "#14a37f"),
    "fault": ("fault", "x", "X", "#d9622b"),
    "lost": ("found lost", "triangle-down", "v", "#d9622b"),
    "returned": ("came back", "triangle-up", "^", "#14a37f"),
    "memory": ("out of memory", "square", "s", "#c678b0"),
    "resumed": ("went back to checkpoint", "arrow-left", "<", "#c678b0"),
}


def looks(variants: list[str]) -> dict[str, Look]:
    """A look for each variant; where there are more of them than colours, these come again with another shape.

    >>> len(set(looks([str(number) for number in range(24)]).values()))
    24
    """
    return {variant: _look(i) for i, variant in enumerate(dict.fromkeys(variants))}


def _look(number: int) -> Look:
    turn, place = divmod(number, len(LOOKS))
    shape = LOOKS[(place + 3 * turn) % len(LOOKS)]
    return replace(shape, colour=LOOKS[place].colour)


def time_axis(seconds: float) -> tuple[float, str]:
    """The unit in which to show so many seconds, as (seconds in one, name).

    >>> time_axis(90.0), time_axis(7200.0)
    ((1.0, 's'), (60.0, 'min'))
    """
    for least, factor, name in ((5 * 86400, 86400.0, "d"), (5 * 3600, 3600.0, "h"), (600, 60.0, "min")):
        if seconds >= least:
            return factor, name
    return 1.0, "s"
