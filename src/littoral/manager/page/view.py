"""What a view is: a path, a function that shows it, and what can be done there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from littoral.errors import InputError
from littoral.manager.refusals import Unknown
from littoral.manager.tokens import Role, Token

if TYPE_CHECKING:
    from littoral.manager.manager import Manager
    from littoral.manager.page.course import Courses

BASE = "/page"  # where the page is
Fields = Mapping[str, str]  # what a form or a button sends


@dataclass
class Visit:
    """One open page: whose, of what, and what it remembers between two looks."""

    manager: Manager
    courses: Courses
    token: Token
    place: Mapping[str, str] = field(default_factory=dict)  # the variable parts of the path, and the query
    kept: dict[str, Any] = field(default_factory=dict)
    said: Said | None = None

    @property
    def may_write(self) -> bool:
        """Whether the token is an operator's."""
        return self.token.role is Role.OPERATOR

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self.manager.now()

    def number(self, name: str = "number") -> int:
        """A number in the path or the query; 0 if it is not there."""
        text = self.place.get(name, "0")
        if not _is_number(text):
            raise Unknown(f"there is nothing at {text[:40]!r}", remedy="go back to the overview")
        return int(text)


@dataclass(frozen=True, slots=True)
class Said:
    """What an act says when it is done; ``go`` is a path to go on to, ``bad`` that it was refused."""

    text: str
    go: str = ""
    bad: bool = False


Act = Callable[[Visit, Fields], Said]


def number_in(fields: Fields, name: str) -> int:
    """A number that a button or a form of ours sends."""
    text = fields.get(name, "")
    if not _is_number(text):
        raise InputError(f"the {name} is {text[:20]!r}", remedy="load the page again")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One of the page's views. Acts are for operators, whatever a browser sends."""

    path: str
    title: str
    show: Callable[[Visit], str]
    acts: Mapping[str, Act] = field(default_factory=dict)
    every_s: float = 1.0  # between two looks
    operators: bool = False  # for them only
    under: str = ""  # the entry of the navigation that it belongs to
