"""What every page's head has: the style sheet, and the choice of light or dark before anything is painted."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from urllib.parse import quote

from littoral.manager.page.view import BASE

STYLE = Path(__file__).with_name("page.css")
_THEME = "document.documentElement.dataset.theme=localStorage.getItem('littoral-theme')||'system'"

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f6fb2"/>'
    '<path d="M4 21c4-5 8-5 12 0s8 5 12 0" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round"/>'
    '<circle cx="16" cy="10" r="3.5" fill="#fff"/></svg>'
)


@cache
def style_path() -> str:
    """Where the style sheet is; another one is elsewhere, so that browsers may keep it."""
    return f"/assets/{hashlib.sha256(STYLE.read_bytes()).hexdigest()[:12]}.css"


def head() -> str:
    """For the head of a page."""
    icon = f'<link rel="icon" href="data:image/svg+xml,{quote(ICON)}">'
    return f'{icon}<script>{_THEME}</script><link rel="stylesheet" href="{BASE}{style_path()}">'
