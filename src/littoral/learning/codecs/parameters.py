"""Parameters of codecs are checked once, when the codec is made."""

from __future__ import annotations

import math

from littoral.errors import InputError, brief


def check_share(name: str, value: object, most: float = 1.0) -> None:
    """Refuse what is not a number above 0 and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise InputError(f"{name} is {brief(value)}", remedy=f"give a number above 0 and at most {most:g}", key="codec")


def check_least(name: str, value: object, least: float = 0.0) -> None:
    """Refuse what is not a finite number of at least ``least``."""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value) or value < least:  # type: ignore[arg-type,operator]
        raise InputError(f"{name} is {brief(value)}", remedy=f"give a number of at least {least:g}", key="codec")


def check_count(name: str, value: object, least: int, most: int = 2**31) -> None:
    """Refuse what is not a whole number between ``least`` and ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        remedy = f"give a whole number, at least {least} and at most {most}"
        raise InputError(f"{name} is {brief(value)}", remedy=remedy, key="codec")


def check_segments(name: str, segments: tuple[tuple[int, int], ...]) -> None:
    """Refuse (start, stop) pairs that are empty, unordered or overlapping."""
    end = 0
    for start, stop in segments:
        if not end <= start < stop:
            remedy = "give segments in ascending order that do not overlap"
            raise InputError(f"{name} has a segment from {start} to {stop} after one to {end}", remedy=remedy)
        end = stop


def check_fits(segments: tuple[tuple[int, int], ...], length: int) -> None:
    """ValueError when a layout was made for a longer vector."""
    if segments and segments[-1][1] > length:
        raise ValueError(f"a layout that ends at {segments[-1][1]} for a vector of {length}")
