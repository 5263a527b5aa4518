"""Quantities with units: "20 Mbit/s", "40 ms", "4 GiB", "0.09 USD/GB" -> SI floats, and back.

The only place that converts. Inside Littoral everything is seconds, bytes, bytes per second, USD, USD per
second and USD per byte; a number without its unit is refused wherever a unit is possible.
"""

from __future__ import annotations

import math
import re

from littoral.errors import InputError, brief

_NUMBER = re.compile(r"([+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.ASCII | re.DOTALL)

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {f"{p}B": f for p, f in (_DECIMAL | _BINARY).items()}
_BITS = {f"{p}bit": f / 8 for p, f in (_DECIMAL | _BINARY).items()}
BYTES_PER_S = {f"{u}/s": f for u, f in (_BITS | BYTES).items()} | {f"{p}bps": f / 8 for p, f in _DECIMAL.items() if p}
USD_PER_S = {"USD/s": 1.0, "USD/min": 1 / 60, "USD/h": 1 / 3600}
USD_PER_BYTE = {f"USD/{u}": 1 / f for u, f in BYTES.items()}
USD = {"USD": 1.0}
FLOPS = {f"{p}FLOP/s": f for p, f in _DECIMAL.items()}
SAMPLES_PER_S = {"samples/s": 1.0}
FRACTION = {"%": 0.01, "": 1.0}

_KINDS: dict[str, tuple[dict[str, float], str]] = {
    "duration": (SECONDS, "such as '40 ms', in ns, us, ms, s, min, h or d"),
    "size": (BYTES, "such as '4 GiB'"),
    "rate": (BYTES_PER_S, "such as '20 Mbit/s'"),
    "price per time": (USD_PER_S, "such as '0.526 USD/h'"),
    "price per byte": (USD_PER_BYTE, "such as '0.09 USD/GB'"),
    "money": (USD, "such as '2 USD'"),
    "speed": (FLOPS, "such as '472 GFLOP/s'"),
    "sample rate": (SAMPLES_PER_S, "such as '500 samples/s'"),
    "fraction": (FRACTION, "such as 0.3 or '30 %'"),
}


def parse(value: object, kind: str) -> float:
    """A quantity of ``kind`` in SI units.

    >>> parse("20 Mbit/s", "rate")
    2500000.0
    """
    units, example = _KINDS[kind]
    remedy = f"write a {kind} {'' if '' in units else 'with its unit, '}{example}"
    match = _NUMBER.fullmatch(_written(value))
    if match is None:
        raise InputError(f"{brief(value)} is not a {kind}", remedy=remedy)
    number, unit = float(match[1].replace("_", "")), match[2]
    if unit not in units:
        if unit == "" and number == 0.0:
            return 0.0
        raise InputError(_unit_complaint(value, unit, kind), remedy=remedy)
    factor = units[unit]  # all below 1 are 1/n: dividing by n keeps '95 %' at 0.95
    result = number * factor if factor >= 1 else number / round(1 / factor)
    if not math.isfinite(result):
        raise InputError(f"{brief(value)} is too large", remedy=remedy)
    return result


def _written(value: object) -> str:
    """What was written; nothing for what cannot be a quantity: true, a list, thousands of digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        return str(value).strip()
    except ValueError:
        return ""


def _unit_complaint(value: object, unit: str, kind: str) -> str:
    if unit == "":
        return f"{brief(value)} has no unit"
    return f"{brief(unit)} is not a unit of {kind}{_hint(unit, _KINDS[kind][0])}"


def _hint(unit: str, units: dict[str, float]) -> str:
    for other, (known, _) in _KINDS.items():
        if unit in known:
            return f" but of {other}"
    # 'Mb/s' and 'MBps' leave open whether bits or bytes are meant: a factor of eight, so ask.
    if match := re.fullmatch(r"([kmgt]i?)?b(?:it)?(/s|ps)?", unit, re.ASCII | re.IGNORECASE):
        prefix = next((p for p in _DECIMAL | _BINARY if p.lower() == (match[1] or "").lower()), "")
        if f"{prefix}B" in units:
            return f" (sizes are in bytes: {prefix + 'B'!r})"
        if f"{prefix}B/s" in units and "bit" not in unit.lower():
            return f" (write {prefix + 'bit/s'!r} if you mean bits, {prefix + 'B/s'!r} if you mean bytes)"
    close = [known for known in units if known.lower() == unit.lower()]
    return f" (did you mean {close[0]!r}?)" if close else ""


def duration(value: object) -> float:
    """Seconds.

    >>> duration("40 ms")
    0.04
    """
    return parse(value, "duration")


def size(value: object) -> float:
    """Bytes."""
    return parse(value, "size")


def rate(value: object) -> float:
    """Bytes per second."""
    return parse(value, "rate")


def price_per_time(value: object) -> float:
    """USD per second."""
    return parse(value, "price per time")


def price_per_byte(value: object) -> float:
    """USD per byte."""
    return parse(value, "price per byte")


def money(value: object) -> float:
    """USD."""
    return parse(value, "money")


def speed(value: object) -> float:
    """Floating-point operations per second."""
    return parse(value, "speed")


def sample_rate(value: object) -> float:
    """Training samples per second."""
    return parse(value, "sample rate")


def fraction(value: object) -> float:
    """A share between 0 and 1; '30 %' and 0.3 are the same."""
    result = parse(value, "fraction")
    if not 0.0 <= result <= 1.0:
        raise InputError(f"{brief(value)} is not between 0 and 1", remedy="write a share such as 0.3 or '30 %'")
    return result


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    """Three digits in the largest unit that they fill, after rounding: 999.9 ms is 1 s."""
    if value == 0:
        return f"0 {next(unit for factor, unit in steps if factor == 1)}"
    rounded = float(f"{abs(value):.3g}")
    factor, unit = next((step for step in steps if rounded >= step[0]), steps[-1])
    scaled = value / factor
    return f"{scaled:.0f} {unit}" if 999.5 <= abs(scaled) < 1e6 else f"{scaled:.3g} {unit}"


def show_duration(seconds: float) -> str:
    """For people: '1.89 s', '40 ms', '2.5 h'."""
    small = [(1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]
    return _scaled(seconds, [(86400, "d"), (3600, "h"), (60, "min"), (1, "s"), *small])


def show_bytes(count: float) -> str:
    """For people: '4.2 MB'."""
    return _scaled(count, [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")])


def show_rate(bytes_per_s: float) -> str:
    """For people, in bits as networks are sold: '20 Mbit/s'."""
    return _scaled(bytes_per_s * 8, [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")])
