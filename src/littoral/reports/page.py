"""One HTML page that carries everything in itself: no request leaves it, and its policy forbids any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from littoral.errors import MissingExtra
from littoral.reports import overview, sections
from littoral.reports.assets import SCRIPT, STYLE
from littoral.reports.markup import folded
from littoral.reports.overview import Report, report_of, title_of
from littoral.reports.story import Story
from littoral.reports.tables import Row

OVERVIEW: tuple[Callable[[Report], str], ...] = (overview.headline, overview.results, overview.learning)

PER_RUN: tuple[Callable[[Story, Row], str], ...] = (
    sections.continuum,
    sections.plan,
    sections.timeline,
    sections.network,
    sections.apps,
    sections.happenings,
    # diagnosis: a section that says why a run was slow belongs here
    sections.reproduce,
)

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"


def page_of(stories: Sequence[Story]) -> str:
    """The page of one run, or of several beside each other."""
    report = report_of(stories)
    title = escape(title_of(report))
    parts = [section(report) for section in OVERVIEW] + _runs(report)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title} - Littoral report</title><style>{STYLE}</style></head><body>"
        f"{_navigation(report)}<main>{''.join(parts)}<footer>Written by Littoral from the journals of the runs."
        "</footer></main><noscript>Tables need no script, but the figures do.</noscript>"
        f"<script>{_plotly_js()}</script><script>{SCRIPT}</script></body></html>\n"
    )


def _runs(report: Report) -> list[str]:
    """Every run's sections; only the first is open when there are several."""
    several = len(report.stories) > 1
    parts = []
    for number, (story, row) in enumerate(zip(report.stories, report.rows, strict=True), start=1):
        body = "".join(section(story, row) for section in PER_RUN)
        if several:
            anchor = f'<div id="run-{number}"></div>'
            parts.append(anchor + folded(row.label, body, opened=number == 1, kind="run"))
        else:
            parts.append(f'<section id="run-1"><h2>{escape(row.label)}</h2>{body}</section>')
    return parts


def _navigation(report: Report) -> str:
    links = [("results", "Results")]
    links += [("learning", "Learning")] if any(story.evaluations for story in report.stories) else []
    links += [(f"run-{number}", row.label) for number, row in enumerate(report.rows, start=1)]
    items = "".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in links)
    return f'<nav aria-label="Sections">{items}</nav>'


def _plotly_js() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtra("plotly", "report", "an HTML report") from error
    return str(get_plotlyjs())
