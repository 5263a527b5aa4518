"""``littoral report``: run folders in, one HTML page out, and the main figures as PNG where asked."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from littoral.errors import InputError, MissingExtra
from littoral.reports.page import page_of
from littoral.reports.png import pictures_of
from littoral.reports.story import read_story


def write_report(folders: list[Path], out: Path, png: bool = False) -> list[Path]:
    """Write the report of one or several runs; the files written, the page first.

    ``out`` is the page's file, or a folder to put ``report.html`` in. Pictures stand beside it. Everything is made
    before anything is written, so a broken run leaves no file behind.
    """
    if not folders:
        raise InputError("no run was named", remedy="name one or more folders that 'littoral run' wrote")
    for package, needed in (("plotly", True), ("matplotlib", png)):
        if needed and find_spec(package) is None:
            raise MissingExtra(package, "report", "a report")
    stories = [read_story(folder) for folder in folders]
    page = out / "report.html" if out.is_dir() else out
    files = {page: page_of(stories).encode()}
    if png:
        files |= {page.with_name(f"{page.stem}-{name}.png"): data for name, data in pictures_of(stories).items()}
    for path, data in files.items():
        _write(path, data)
    return list(files)


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"cannot write it: {error.strerror}", file=path, remedy="choose a place to write to") from error
