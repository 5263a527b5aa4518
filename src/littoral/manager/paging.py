"""Lists come in pages: ``?limit=`` so many, ``?after=`` the cursor that the page before gave as ``next``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from littoral.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
LARGEST = 500
AGAIN = "give the 'next' of the page before"
LAST = 2**63 - 1  # that SQLite counts to


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list; ``next`` is the cursor of the next part, null at the end."""

    items: list[T]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What part of a list is wanted."""

    limit: int = 50
    after: str | None = None

    @property
    def after_name(self) -> str:
        """The name after which it begins."""
        return self.after or ""

    @property
    def after_number(self) -> int:
        """The number after which it begins."""
        if self.after is None:
            return 0
        if not (self.after.isascii() and self.after.isdigit() and int(self.after[:20]) <= LAST):
            raise InputError("after is not a cursor of this list", remedy=AGAIN, key="after")
        return int(self.after)


def page(rows: Sequence[R], window: Window, key: Callable[[R], object], show: Callable[[R], T]) -> Page[T]:
    """A page of rows, of which one more than ``window.limit`` were read if there are: that one tells of more."""
    shown = rows[: window.limit]
    more = str(key(shown[-1])) if len(rows) > window.limit else None
    return Page(items=[show(row) for row in shown], next=more)


def page_by_name(found: Iterable[R], window: Window, name: Callable[[R], str], show: Callable[[R], T]) -> Page[T]:
    """A page of what is not in a table, by name."""
    rows = sorted((each for each in found if name(each) > window.after_name), key=name)
    return page(rows, window, name, show)


def page_by_number(found: Iterable[T], window: Window, number: Callable[[T], int]) -> Page[T]:
    """A page of what is at hand already, by number."""
    rows = [each for each in found if number(each) > window.after_number]
    return page(rows, window, number, lambda each: each)
