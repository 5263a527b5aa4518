"""One HTML page that carries everything in itself: no request leaves it, and its policy forbids any."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path

from littoral.errors import InputError, MissingExtra
from littoral.reports import overview, sections
from littoral.reports.assets import SCRIPT, STYLE
from littoral.reports.markup import folded
from littoral.reports.overview import Report, report_of, title_of
from littoral.reports.png import pictures_of
from littoral.reports.story import Story, read_story
from littoral.reports.tables import Row

OVERVIEW: tuple[Callable[[Report], str], ...] = (overview.headline, overview.result_tables, overview.learning)

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

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; form-action 'none'; base-uri 'none'"
)


def write_report(folders: list[Path], out: Path, png: bool = False) -> list[Path]:
    """Write the report of one or several runs; the files written, the page first.

    ``out`` is the page's file, or a folder to put ``report.html`` in. Pictures stand beside it. Everything is
    made before anything is written, so a broken run leaves no file behind.
    """
    if not folders:
        raise InputError("no run was named", remedy="name one or more folders that 'littoral run' wrote")
    need("plotly", *(("matplotlib",) if png else ()))
    stories = [read_story(folder) for folder in folders]
    page = page_file(out)
    files = {page: page_of(stories).encode()}
    if png:
        files |= {page.with_name(f"{page.stem}-{name}.png"): data for name, data in pictures_of(stories).items()}
    for path, data in files.items():
        write_whole(path, data)
    return list(files)


def page_of(stories: Sequence[Story]) -> str:
    """The page of one run, or of several beside each other."""
    report = report_of(stories)
    parts = [section(report) for section in OVERVIEW] + _runs(report)
    return shell(title_of(report), _links(report), "".join(parts), "the journals of the runs")


def shell(title: str, links: Sequence[tuple[str, str]], body: str, source: str) -> str:
    """A whole page around ``body``, which is HTML; links are (anchor, text), ``source`` is what it was made from."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} - Littoral report</title><style>{STYLE}</style></head><body>"
        f"{_navigation(links)}<main>{body}"
        f"<footer>Written by Littoral from {escape(source)}.</footer></main>"
        "<noscript>Tables need no script, but the figures do.</noscript>"
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


def _links(report: Report) -> list[tuple[str, str]]:
    links = [("results", "Results")]
    links += [("learning", "Learning")] if any(story.evaluations for story in report.stories) else []
    return links + [(f"run-{number}", row.label) for number, row in enumerate(report.rows, start=1)]


def _navigation(links: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in links)
    return f'<nav aria-label="Sections">{items}</nav>'


def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def need(*packages: str) -> None:
    """Refuse to begin a report without what draws it."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(package, "report", "a report")


def page_file(out: Path) -> Path:
    """The file that ``out`` means: itself, or one in it where it is a folder."""
    return out / "report.html" if out.is_dir() else out


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that what goes wrong leaves the old one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(
            f"cannot write it: {error.strerror}", file=path, remedy="choose a place to write to"
        ) from error
