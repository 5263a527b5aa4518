"""What every page's head has: the style sheet, and the choice of light or dark before anything is painted."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from littoral.manager.page.view import BASE

STYLE = Path(__file__).with_name("page.css")
_THEME = "document.documentElement.dataset.theme=localStorage.getItem('littoral-theme')||'system'"


@cache
def style_path() -> str:
    """Where the style sheet is; another one is elsewhere, so that browsers may keep it."""
    return f"/assets/{hashlib.sha256(STYLE.read_bytes()).hexdigest()[:12]}.css"


def head() -> str:
    """For the head of a page."""
    return f'<script>{_THEME}</script><link rel="stylesheet" href="{BASE}{style_path()}">'
