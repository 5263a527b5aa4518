"""The Gantt chart of a run as plain lanes and marks, few enough to draw; page and PNG draw the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from littoral.reports.reader import Happening
from littoral.reports.spans import Span, sliced, union
from littoral.reports.story import Story
from littoral.units import show_duration

MOST_SPANS = 20_000
MOST_ROWS = 60
KINDS = ("compute", "fetch", "send", "wait", "lost")
RUN_ROW = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """``lanes[kind][row]`` are the spans of a kind on a row; ``notes`` says what was simplified."""

    rows: tuple[str, ...]
    lanes: dict[str, dict[str, list[Span]]]
    marks: dict[str, list[Happening]]
    seconds: float
    notes: tuple[str, ...]


def timeline_of(story: Story, most_spans: int = MOST_SPANS, most_rows: int = MOST_ROWS) -> Timeline | None:
    """The chart of a run; None when its journal kept no single steps."""
    if not story.detailed:
        return None
    rows = _rows(story, most_rows)
    spans = dict(zip(KINDS, (story.computing, story.fetching, story.sending, story.waiting, story.lost), strict=True))
    drawn, notes = _fewer(spans, rows, most_spans, story.seconds)
    if len(rows) < len(story.nodes):
        notes.append(f"{len(rows)} of {len(story.nodes)} nodes are drawn: servers, what failed, the first workers.")
    return Timeline(
        rows=(RUN_ROW, *rows),
        lanes=drawn,
        marks=_marks(story, rows),
        seconds=story.seconds,
        notes=tuple(notes),
    )


def _fewer(
    spans: dict[str, dict[str, list[Span]]], rows: tuple[str, ...], most: int, seconds: float
) -> tuple[dict[str, dict[str, list[Span]]], list[str]]:
    """Spans that can be drawn quickly, and what was done to get there.

    When they are too many, each slice of time shows how long a node did what. Closing short pauses instead
    would make every node look busy all the time.
    """
    lanes = {kind: {row: union(spans[kind][row]) for row in rows if spans[kind].get(row)} for kind in KINDS}
    count = sum(len(lane) for found in lanes.values() for lane in found.values())
    if count <= most:
        return lanes, []
    width = seconds / max(20, most // sum(len(found) for found in lanes.values()))
    note = (
        f"Simplified for drawing, from {count:,} spans: every {show_duration(width)} one of each kind stands "
        "for all of that time, as long as they are together; waiting comes last."
    )

    def slices(kind: str, lane: list[Span]) -> list[Span]:
        return union(lane) if kind == "lost" else sliced(lane, width, late=kind == "wait")

    fewer = {kind: {row: slices(kind, lane) for row, lane in found.items()} for kind, found in lanes.items()}
    return fewer, [note]


def _rows(story: Story, most: int) -> tuple[str, ...]:
    if len(story.nodes) <= most:
        return story.nodes
    servers = [server.name for server in story.plan.servers]
    struck = [happening.node for happening in story.happenings if happening.node]
    chosen = list(dict.fromkeys([*servers, *struck, *story.nodes]))[:most]
    return tuple(node for node in story.nodes if node in chosen)


def _marks(story: Story, rows: tuple[str, ...]) -> dict[str, list[Happening]]:
    """Marks by kind; what belongs to no drawn row goes to the run's own."""
    marks: dict[str, list[Happening]] = {}
    epochs = [
        Happening(t=t, mark="epoch", node=RUN_ROW, text=f"epoch {number} done")
        for number, t in enumerate(story.epochs, start=1)
    ]
    evaluations = [
        Happening(t=e.t, mark="evaluation", node=RUN_ROW, text=f"accuracy {100 * e.accuracy:.1f} %")
        for e in story.evaluations
    ]
    for each in (*epochs, *evaluations, *story.happenings):
        if each.mark == "finished":
            continue
        row = each.node if each.node in rows else RUN_ROW
        marks.setdefault(each.mark, []).append(Happening(t=each.t, mark=each.mark, node=row, text=each.text))
    return marks
